package engine

import (
	"context"
	"slices"
)

// adminDatabases are those that a restore may be connected to while it replaces others.
func adminDatabases(pairs []namePair) []string {
	var names []string
	for _, name := range []string{"postgres", "template1"} {
		if !slices.ContainsFunc(pairs, func(p namePair) bool { return p.target == name }) {
			names = append(names, name)
		}
	}
	return names
}

// ProbeTarget looks at the server and the client programs before a restore.
func (postgreSQL) ProbeTarget(ctx context.Context, a Access, artifact Artifact) (Target, error) {
	r, err := newRestore(ctx, a, Restoration{Artifact: artifact})
	if err != nil {
		return Target{}, err
	}
	defer r.close()
	if err := a.supported(r.server); err != nil {
		return Target{}, err
	}
	target := Target{Version: r.server.version}
	if target.ToolVersion, err = a.needRestoreTool(ctx, r.server, artifact); err != nil {
		return Target{}, err
	}
	for _, item := range r.items {
		target.Databases = append(target.Databases, item.target)
		if item.exists {
			target.Existing = append(target.Existing, item.target)
		}
	}
	if err := r.mayRestore(ctx); err != nil {
		return Target{}, err
	}
	return target, r.obstacles(ctx)
}

// needRestoreTool wants a pg_restore no older than the server and the pg_dump that wrote the artifact. A script needs
// no client program: this program itself runs it.
func (a Access) needRestoreTool(ctx context.Context, server serverInfo, artifact Artifact) (string, error) {
	if artifact.Format == formatSQL {
		return "", nil
	}
	version, err := a.needTool(ctx, "pg_restore", server)
	if err != nil {
		return "", err
	}
	if wrote := majorOf(artifact.ToolVersion); majorOf(version) < wrote {
		return "", Permanent(ReasonClientTooOld, "pg_restore of image %s has version %s, and the artifact was written by pg_dump %s: "+
			"set spec.database.image to postgres:%d or another image with client programs of version %d or newer",
			a.Image, version, artifact.ToolVersion, wrote, wrote)
	}
	return version, nil
}

// majorOf a version such as 15.18; 0 when there is none.
func majorOf(version string) int {
	major := 0
	for _, c := range version {
		if c < '0' || c > '9' {
			break
		}
		major = major*10 + int(c-'0')
	}
	return major
}
