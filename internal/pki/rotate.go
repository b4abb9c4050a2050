package pki

import (
	"crypto"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
)

// kinds are the names in commands of the authorities and keys that can be rotated, by
// file name.
var kinds = map[string]string{
	ServerCA: "server", ClientCA: "client", FrontProxyCA: "front-proxy", ServiceAccount: "service-account",
}

// Kinds lists what [Store.Prepare] accepts.
func Kinds() []string { return slices.Sorted(maps.Values(kinds)) }

func fileOf(kind string) (string, error) {
	for name, k := range kinds {
		if k == kind {
			return name, nil
		}
	}
	return "", fmt.Errorf("%q cannot be rotated; allowed: %v", kind, Kinds())
}

// Prepare makes a new authority or token key and trusts it; it does not sign yet. A
// second call does nothing.
func (s *Store) Prepare(kind string) ([]Change, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name, err := fileOf(kind)
	if err != nil {
		return nil, err
	}
	j, err := s.readJournal()
	if err != nil {
		return nil, err
	}
	if r := j.Rotations[name]; r != nil && r.Phase == signing {
		return nil, fmt.Errorf("%s is being rotated, and the old one is trusted until %s: wait, or end it with "+
			"\"kube-hyper-mini certs rotate %s --finish\"", kind, r.Until.Format(time.RFC3339), kind)
	} else if r == nil {
		from, err := s.replaceable(name)
		if err != nil {
			return nil, err
		}
		j.Rotations[name] = &rotation{Phase: preparing, From: from, Started: s.now().UTC().Truncate(time.Second)}
		if err := s.writeJournal(j); err != nil {
			return nil, err
		}
	}
	return s.ensureOrUndo(name)
}

// ensureOrUndo undoes a step of a rotation that fails, for example if files cannot be
// replaced: otherwise each start would fail.
func (s *Store) ensureOrUndo(name string) ([]Change, error) {
	s.replacing = true
	changes, err := s.ensure(false)
	s.replacing = false
	if err == nil {
		return changes, nil
	}
	j, undoErr := s.readJournal()
	if undoErr != nil || j.Rotations[name] == nil {
		return changes, errors.Join(err, undoErr)
	}
	switch r := j.Rotations[name]; r.Phase {
	case preparing:
		delete(j.Rotations, name)
		undoErr = errors.Join(s.writeJournal(j), datadir.RemoveFile(s.nextKey(name)), datadir.RemoveFile(s.cross(name)))
	case switching:
		r.Phase = prepared
		undoErr = s.writeJournal(j)
	}
	return changes, errors.Join(err, undoErr)
}

// replaceable returns the fingerprint of the key in use, or an error if the server
// cannot replace the key.
func (s *Store) replaceable(name string) (string, error) {
	key, err := readKey(s.Key(name))
	if err != nil {
		return "", err
	}
	if key == nil {
		return "", fmt.Errorf("%s does not exist, so the authority cannot be rotated: place it, or add the new "+
			"authority to %s and place its key yourself", s.Key(name), s.Cert(name))
	}
	if name != ServiceAccount {
		ca, err := s.loadAuthority(name)
		if err != nil {
			return "", err
		}
		if ca.cert == nil {
			return "", &MissingError{Files: []string{s.Cert(name)}}
		}
		if ca.cert.MaxPathLen == 0 && ca.cert.MaxPathLenZero && s.now().Before(ca.cert.NotAfter) {
			return "", fmt.Errorf("the authority in %s may not sign other authorities (path length 0): add the new "+
				"authority to the file, and replace %s when all peers trust it", s.Cert(name), s.Key(name))
		}
	}
	return fingerprint(key.Public())
}

// Switch signs with the authority or key of [Store.Prepare], and trusts the old one for
// the overlap.
func (s *Store) Switch(kind string, overlap time.Duration) ([]Change, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name, err := s.changeRotation(kind, func(r *rotation) error {
		if r == nil || r.Phase != prepared {
			return fmt.Errorf("there is no new %s to switch to: prepare it first", kind)
		}
		r.Phase, r.Overlap = switching, overlap
		return nil
	})
	if err != nil {
		return nil, err
	}
	return s.ensureOrUndo(name)
}

// Finish ends the overlap now: the old one is not trusted any more.
func (s *Store) Finish(kind string) ([]Change, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err := s.changeRotation(kind, func(r *rotation) error {
		if r != nil && r.Phase == prepared {
			return fmt.Errorf("the rotation of %[1]s was interrupted: a new one is trusted and does not sign yet; complete it "+
				"with \"kube-hyper-mini certs rotate %[1]s\"", kind)
		}
		if r == nil || r.Phase != signing {
			return fmt.Errorf("%s is not being rotated; see \"kube-hyper-mini certs list\"", kind)
		}
		r.Until = s.now()
		return nil
	})
	if err != nil {
		return nil, err
	}
	return s.ensure(false)
}

// changeRotation calls change with the rotation in the journal, nil if there is none,
// writes the journal, and returns the file name of kind. The caller holds mu.
func (s *Store) changeRotation(kind string, change func(*rotation) error) (name string, err error) {
	if name, err = fileOf(kind); err != nil {
		return "", err
	}
	j, err := s.readJournal()
	if err != nil {
		return "", err
	}
	if err := change(j.Rotations[name]); err != nil {
		return "", err
	}
	return name, s.writeJournal(j)
}

// Retired reports whether a rotation has replaced the authority for good.
func (s *Store) Retired() (func(*x509.Certificate) bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	j, err := s.readJournal()
	if err != nil || len(j.Retired) == 0 {
		return nil, err
	}
	return func(crt *x509.Certificate) bool {
		print, err := fingerprint(crt.PublicKey)
		return err == nil && slices.Contains(j.Retired, print)
	}, nil
}

func (s *Store) advanceAll(j *journal) ([]Change, error) {
	var changes []Change
	for _, name := range slices.Sorted(maps.Keys(j.Rotations)) {
		did, err := s.advance(j, name)
		if did != "" {
			changes = append(changes, Change{Name: name, Reason: did})
		}
		if err != nil {
			return changes, err
		}
	}
	return changes, nil
}

// advance takes the pending step of a rotation and returns its description. Each
// step can be repeated after a crash.
func (s *Store) advance(j *journal, name string) (did string, err error) {
	switch r := j.Rotations[name]; r.Phase {
	case preparing:
		next, err := readKey(s.nextKey(name))
		if err == nil && next == nil {
			next, err = makeKey(s.nextKey(name))
		}
		switch {
		case err != nil:
			return "", err
		case name == ServiceAccount:
			err = s.trustTokenKey(next.Public())
		default:
			err = s.trustNextAuthority(name, next)
		}
		if err == nil {
			r.To, err = fingerprint(next.Public())
		}
		if err != nil {
			return "", err
		}
		r.Phase, did = prepared, "a new one is trusted"
	case switching:
		if err := s.useNextKey(name); err != nil {
			return "", err
		}
		r.Phase, r.Until = signing, s.now().Add(r.Overlap).UTC()
		did = "a new one signs"
	default:
		return "", nil
	}
	return did, s.writeJournal(j)
}

// trustNextAuthority makes the next authority with its key, signs it with the current one, and
// adds it to the trusted ones.
func (s *Store) trustNextAuthority(name string, next crypto.Signer) error {
	ca, err := s.loadAuthority(name)
	if err != nil {
		return err
	}
	if belongsTo(next, ca.trusted) != nil {
		return nil
	}
	subject := pkix.Name{CommonName: s.commonName(name) + "@" + s.now().UTC().Format("20060102T150405Z")}
	crt, err := s.selfSign(name, subject, next)
	if err != nil {
		return err
	}
	if s.now().Before(ca.cert.NotAfter) {
		if err := s.crossSign(ca, crt); err != nil {
			return err
		}
	}
	return writeCerts(s.Cert(name), append([]*x509.Certificate{crt}, ca.trusted...)...)
}

func (s *Store) commonName(name string) string {
	for _, a := range s.authorities {
		if a.name == name {
			return a.commonName
		}
	}
	return name
}

// crossSign has the authority sign the one that will follow it.
func (s *Store) crossSign(ca *authority, next *x509.Certificate) error {
	template := s.authorityTemplate(next.Subject)
	template.SubjectKeyId = next.SubjectKeyId
	if template.NotAfter.After(ca.cert.NotAfter) {
		template.NotAfter = ca.cert.NotAfter
	}
	crt, err := sign(ca.name, template, ca.cert, next.PublicKey, ca.key)
	if err != nil {
		return err
	}
	return writeCerts(s.cross(ca.name), crt)
}

// endOverlaps stops trusting the replaced authorities and keys whose overlap is over.
func (s *Store) endOverlaps(j *journal) (ended []Change, err error) {
	for _, name := range slices.Sorted(maps.Keys(j.Rotations)) {
		r := j.Rotations[name]
		if r.Phase != signing || s.now().Before(r.Until) {
			continue
		}
		if name == ServiceAccount {
			err = s.distrustTokenKey(r.From)
		} else {
			err = s.distrustAuthority(name, r.From)
		}
		if err != nil {
			return ended, err
		}
		delete(j.Rotations, name)
		if name != ServiceAccount && !slices.Contains(j.Retired, r.From) {
			j.Retired = append(j.Retired, r.From)
		}
		if err := s.writeJournal(j); err != nil {
			return ended, err
		}
		ended = append(ended, Change{Name: name, Reason: "the one before it is not trusted any more"})
	}
	return ended, nil
}

// distrustAuthority drops the authority whose key has the fingerprint.
func (s *Store) distrustAuthority(name, old string) error {
	trusted, err := readCerts(s.Cert(name))
	if err != nil {
		return err
	}
	if err := datadir.RemoveFile(s.cross(name)); err != nil {
		return err
	}
	kept := slices.DeleteFunc(trusted, func(crt *x509.Certificate) bool { return hasFingerprint(crt.PublicKey, old) })
	if len(kept) == 0 {
		return fmt.Errorf("%s would have no authority left", s.Cert(name))
	}
	return writeCerts(s.Cert(name), kept...)
}

func hasFingerprint(key crypto.PublicKey, want string) bool {
	print, err := fingerprint(key)
	return err == nil && print == want
}
