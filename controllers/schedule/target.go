package schedule

import (
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-dev/holdfast/engine"
)

// Target is a database as an object names it: what it backs up, or restores into.
type Target struct {
	Engine engine.Name
	// Namespace is the object's own, in which a host without dots is a Service.
	Namespace string
	// Host is a DNS name or an IP address.
	Host string
	// Port is the engine's default where it is 0.
	Port int32
	// Databases are names of databases. None means all of the server.
	Databases []string
}

// Overlaps says whether two targets have a database in common. It goes by names: one server under two names that are not
// forms of one Service's name, such as an alias and an address, are two.
func Overlaps(a, b Target) bool {
	if a.Server() != b.Server() {
		return false
	}
	if len(a.Databases) == 0 || len(b.Databases) == 0 {
		return true
	}
	return slices.ContainsFunc(a.Databases, func(name string) bool { return slices.Contains(b.Databases, name) })
}

// Server returns the server of the target, in one form for all the ways in which an object may write it. The engine does
// not belong to it: MySQL's protocol reaches MariaDB, and what listens at a port is one server.
func (t Target) Server() string {
	port := int(t.Port)
	if port == 0 {
		if known, err := engine.For(t.Engine); err == nil {
			port = known.DefaultPort()
		}
	}
	return net.JoinHostPort(t.host(), strconv.Itoa(port))
}

// host returns an address in its canonical form, a Service as name.namespace, and any other name in lower case. An external
// name that looks like the short form of a Service, such as example.com, is taken for one, which does no harm: it is still
// the same for the same server.
func (t Target) host() string {
	host := strings.TrimSuffix(strings.ToLower(t.Host), ".")
	if address, err := netip.ParseAddr(host); err == nil {
		return address.Unmap().String()
	}
	labels := strings.Split(host, ".")
	if len(labels) == 1 {
		return host + "." + t.Namespace
	}
	// name.namespace.svc, with or without the cluster's domain, which need not be cluster.local; a pod's name has one more.
	if len(labels) > 2 {
		if svc := slices.Index(labels[2:], "svc"); svc >= 0 {
			return strings.Join(labels[:2+svc], ".")
		}
	}
	return host
}
