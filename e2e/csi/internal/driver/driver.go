// Package driver serves the Container Storage Interface on top of a pool.
package driver

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"path"
	"sync"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-dev/holdfast/e2e/csi/internal/pool"
)

// Name is the name of the driver, which storage classes and snapshot classes give.
const Name = "btrfs.csi.holdfast.test"

// Driver answers the calls of the kubelet and of the CSI sidecars.
type Driver struct {
	csi.UnimplementedIdentityServer
	csi.UnimplementedControllerServer
	csi.UnimplementedNodeServer

	pool     *pool.Pool
	nodeName string
	version  string
	trouble  failures

	publish sync.Mutex // held while a target path is mounted or unmounted
}

// New makes the driver of one node.
func New(p *pool.Pool, nodeName, version string) *Driver {
	return &Driver{pool: p, nodeName: nodeName, version: version}
}

// Server returns a gRPC server of all three CSI services, which logs every call that changes something or fails.
func (d *Driver) Server() *grpc.Server {
	server := grpc.NewServer(grpc.UnaryInterceptor(logged))
	csi.RegisterIdentityServer(server, d)
	csi.RegisterControllerServer(server, d)
	csi.RegisterNodeServer(server, d)
	return server
}

// Serve answers calls on a listener until the context ends, then lets the running calls finish.
func Serve(ctx context.Context, server *grpc.Server, listener net.Listener) error {
	stop := context.AfterFunc(ctx, server.GracefulStop)
	defer stop()
	return server.Serve(listener)
}

func logged(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	start := time.Now()
	resp, err := handler(ctx, req)
	args := append(objectOf(req), "call", path.Base(info.FullMethod), "took", time.Since(start).Round(time.Millisecond))
	switch {
	case err != nil:
		slog.Error("Call failed", append(args, "error", err)...)
	case changes(req):
		slog.Info("Call done", args...)
	default:
		slog.Debug("Call done", args...)
	}
	return resp, err
}

// objectOf names what a request is about. Requests are not logged whole: they may carry secrets.
func objectOf(req any) []any {
	var args []any
	if r, ok := req.(interface{ GetName() string }); ok {
		args = append(args, "name", r.GetName())
	}
	if r, ok := req.(interface{ GetVolumeId() string }); ok {
		args = append(args, "volume", r.GetVolumeId())
	}
	if r, ok := req.(interface{ GetSourceVolumeId() string }); ok {
		args = append(args, "volume", r.GetSourceVolumeId())
	}
	if r, ok := req.(interface{ GetSnapshotId() string }); ok {
		args = append(args, "snapshot", r.GetSnapshotId())
	}
	if r, ok := req.(interface{ GetTargetPath() string }); ok {
		args = append(args, "target", r.GetTargetPath())
	}
	return args
}

func changes(req any) bool {
	switch req.(type) {
	case *csi.CreateVolumeRequest, *csi.DeleteVolumeRequest, *csi.CreateSnapshotRequest, *csi.DeleteSnapshotRequest,
		*csi.NodePublishVolumeRequest, *csi.NodeUnpublishVolumeRequest:
		return true
	}
	return false
}

// coded gives an error of the pool the code that the specification wants.
func coded(err error) error {
	code := codes.Internal
	switch {
	case err == nil:
		return nil
	case errors.Is(err, pool.ErrNotFound):
		code = codes.NotFound
	case errors.Is(err, pool.ErrConflict):
		code = codes.AlreadyExists
	case errors.Is(err, pool.ErrSize):
		code = codes.OutOfRange
	}
	return status.Error(code, err.Error())
}

func missing(field string) error {
	return status.Errorf(codes.InvalidArgument, "the request has no %s", field)
}
