package backup

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"filippo.io/age"
)

// ErrEncrypted means that a backup is encrypted and that there is no key to decrypt it.
var ErrEncrypted = errors.New("the backup is encrypted")

// agePrefix is the first line of every age file.
const agePrefix = "age-encryption.org/v1\n"

// Encryption configures the encryption of backups. The zero Encryption does not encrypt.
type Encryption struct {
	// Recipients are age recipients, "age1...".
	Recipients []string
}

// recipients returns the age recipients; none for the zero Encryption.
func (e Encryption) recipients() ([]age.Recipient, error) {
	var recipients []age.Recipient
	for _, text := range e.Recipients {
		parsed, err := age.ParseRecipients(strings.NewReader(text))
		if err != nil {
			return nil, fmt.Errorf("%q is not an age recipient (age1...): %w", text, err)
		}
		recipients = append(recipients, parsed...)
	}
	return recipients, nil
}

// Validate returns an error for invalid recipients.
func (e Encryption) Validate() error {
	_, err := e.recipients()
	return err
}

// Extension returns the extension of file names of backups.
func (e Encryption) Extension() string {
	if len(e.Recipients) == 0 {
		return ".tar.gz"
	}
	return ".tar.gz.age"
}

// Writer encrypts what is written to it. Closing it ends the encryption and
// leaves w open.
func (e Encryption) Writer(w io.Writer) (io.WriteCloser, error) {
	recipients, err := e.recipients()
	if err != nil {
		return nil, err
	}
	if len(recipients) == 0 {
		return nopCloser{w}, nil
	}
	encrypted, err := age.Encrypt(w, recipients...)
	if err != nil {
		return nil, fmt.Errorf("encrypt the backup: %w", err)
	}
	return encrypted, nil
}

type nopCloser struct{ io.Writer }

// Close implements io.Closer.
func (nopCloser) Close() error { return nil }

// Key decrypts backups.
type Key struct {
	// IdentityFile has age identities, "AGE-SECRET-KEY-1...".
	IdentityFile string
}

// Decrypt returns the decrypted backup in r, which may also be unencrypted. Without a
// matching key it returns ErrEncrypted.
func (k Key) Decrypt(r io.Reader) (io.Reader, error) {
	buffered := bufio.NewReader(r)
	begin, err := buffered.Peek(len(agePrefix))
	if err != nil || string(begin) != agePrefix {
		return buffered, nil // Read returns an error if it is not a backup
	}
	identities, err := k.identities()
	if err != nil {
		return nil, err
	}
	if len(identities) == 0 {
		return nil, fmt.Errorf("%w: give the age identity file with --identity; `age -d` decrypts with a passphrase",
			ErrEncrypted)
	}
	opened, err := age.Decrypt(buffered, identities...)
	if err != nil {
		return nil, fmt.Errorf("decrypt the backup: %w", err)
	}
	return opened, nil
}

// Read is [Read] of a backup that may be encrypted. When ctx ends, it returns the cause.
func (k Key) Read(ctx context.Context, r io.Reader, visit func(*Manifest, File, io.Reader) error) (*Manifest, error) {
	content, err := k.Decrypt(WithContext(ctx, r))
	if err != nil {
		return nil, err
	}
	m, err := Read(content, visit)
	if err != nil && ctx.Err() != nil {
		return nil, context.Cause(ctx) // not damage
	}
	return m, err
}

// WithContext returns a reader that fails when ctx has ended.
func WithContext(ctx context.Context, r io.Reader) io.Reader { return &contextReader{ctx, r} }

type contextReader struct {
	ctx context.Context
	io.Reader
}

// Read implements io.Reader.
func (r *contextReader) Read(p []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, context.Cause(r.ctx)
	}
	return r.Reader.Read(p)
}

func (k Key) identities() ([]age.Identity, error) {
	if k.IdentityFile == "" {
		return nil, nil
	}
	file, err := os.Open(k.IdentityFile)
	if err != nil {
		return nil, fmt.Errorf("read the identity: %w", err)
	}
	identities, err := age.ParseIdentities(file)
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, fmt.Errorf("read the identity %s: %w", k.IdentityFile, err)
	}
	return identities, nil
}
