package pki

import (
	"fmt"
	"path/filepath"
	"time"

	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
)

// The phases of a rotation, in their order.
const (
	// preparing: the new one is being made and becomes trusted.
	preparing = "preparing"
	// prepared: the new one is trusted and does not sign yet.
	prepared = "prepared"
	// switching: the new one is about to sign.
	switching = "switching"
	// signing: the new one signs, and the old one is trusted until Until.
	signing = "signing"
)

// rotation is an entry of the journal.
type rotation struct {
	Phase string `json:"phase"`
	// From is the fingerprint of the key that is replaced.
	From string `json:"from"`
	// To is that of the new key, once it is prepared.
	To      string    `json:"to,omitempty"`
	Started time.Time `json:"started"`
	// Overlap is how long the old one stays trusted, in nanoseconds; Until is
	// when that ends, once the new one signs.
	Overlap time.Duration `json:"overlap"`
	Until   time.Time     `json:"until,omitzero"`
}

// journal is the content of rotations.json.
type journal struct {
	// Rotations that are under way, by file name.
	Rotations map[string]*rotation `json:"rotations"`
	// Retired are the fingerprints of authorities that are not trusted any more.
	Retired []string `json:"retired,omitempty"`
}

func (s *Store) journalFile() string { return filepath.Join(s.dir, "rotations.json") }

func (s *Store) readJournal() (*journal, error) {
	j := &journal{Rotations: map[string]*rotation{}}
	if _, err := datadir.ReadJSON(s.journalFile(), j); err != nil {
		return nil, fmt.Errorf("%w; it has the rotations that are under way; take the file from a backup", err)
	}
	return j, nil
}

func (s *Store) writeJournal(j *journal) error { return datadir.WriteJSON(s.journalFile(), j) }
