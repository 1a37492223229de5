package pgtest

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// bringPrograms makes the server's programs reachable for its user, who may not enter our home folder and so not our
// cache: the files are linked into the server's folder, or copied where they cannot be linked.
func (s *Server) bringPrograms() error {
	if s.owner == nil || s.version == DebianVersion {
		return nil
	}
	from, to := filepath.Dir(s.bin), filepath.Join(s.dir, "postgres")
	s.bin = filepath.Join(to, "bin")
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		return bring(path, filepath.Join(to, name), entry)
	})
}

func bring(from, to string, entry fs.DirEntry) error {
	switch {
	case entry.IsDir():
		return os.Mkdir(to, 0o755)
	case entry.Type()&fs.ModeSymlink != 0:
		target, err := os.Readlink(from)
		if err != nil {
			return err
		}
		return os.Symlink(target, to)
	}
	if os.Link(from, to) == nil {
		return nil
	}
	return copyFile(from, to)
}

func copyFile(from, to string) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = source.Close() }()
	target, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_EXCL, info.Mode().Perm())
	if err != nil {
		return err
	}
	if _, err := io.Copy(target, source); err != nil {
		_ = target.Close()
		return err
	}
	return target.Close()
}
