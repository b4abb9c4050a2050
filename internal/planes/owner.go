package planes

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
)

// ownerSuffix ends the name of the file beside a directory that has the UID of the ControlPlane it
// belongs to. Without it, the next ControlPlane of that name would get the data, and its
// administrators. Names of control planes have no dots.
const ownerSuffix = ".uid"

// errFormer means that a directory is that of another ControlPlane with the same name.
var errFormer = errors.New("move it away, or remove it")

// isClaimed reports whether the directory of a ControlPlane is noted to be its own. The error is
// errFormer if it is noted to be another one's. A directory without a note was put there.
func (m *Manager) isClaimed(o *object) (bool, error) {
	dir := Dir(m.config.Host.DataDir, o.Name)
	owner, err := os.ReadFile(dir + ownerSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read whose its directory is: %w", err)
	}
	if string(owner) == string(o.UID) {
		return true, nil
	}
	found, err := datadir.Exists(dir)
	if err == nil && found {
		err = fmt.Errorf("its directory %s is that of a former ControlPlane %s: %w", dir, o.Name, errFormer)
	}
	return false, err
}

// claim notes that the directory of a ControlPlane is its own, before it is made.
func (m *Manager) claim(o *object) error {
	claimed, err := m.isClaimed(o)
	if err != nil || claimed {
		return err
	}
	if err := datadir.WriteFile(Dir(m.config.Host.DataDir, o.Name)+ownerSuffix, []byte(o.UID), 0o600); err != nil {
		return fmt.Errorf("note whose its directory is: %w", err)
	}
	return nil
}

// forget ends the control plane of a ControlPlane that has gone without its removal. Its directory
// stays.
func (c *controller) forget(ctx context.Context, name string) error {
	c.mu.Lock()
	p := c.planes[name]
	c.mu.Unlock()
	if p == nil {
		return nil
	}
	if _, err := p.hold(ctx); err != nil && !errors.Is(err, errNotFound) {
		return fmt.Errorf("stop the control plane without a ControlPlane: %w", err)
	}
	p.end()
	c.mu.Lock()
	delete(c.planes, name)
	c.mu.Unlock()
	return nil
}
