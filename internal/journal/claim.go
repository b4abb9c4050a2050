package journal

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"

	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
)

// claimAttempts bounds the attempts of a claim while other servers claim the
// same number first.
const claimAttempts = 5

// begin claims a new chain.
func (w *Writer) begin(ctx context.Context, reason string) (*session, error) {
	revision, err := w.readRevision(ctx)
	if err != nil {
		return nil, err
	}
	var from restoredMark
	if _, err := datadir.ReadJSON(filepath.Join(w.config.DataDir, RestoredFile), &from); err != nil {
		return nil, err
	}
	host, _ := os.Hostname() // empty on a machine without a name
	claim := Claim{
		Format: Format, ID: uuid.NewString(), Writer: w.id, Host: host, Version: w.config.Version,
		Created: time.Now().UTC(), First: revision + 1, Reason: reason, Restored: from.Chain,
	}
	number, err := w.claim(ctx, &claim, from.Newest)
	if err != nil {
		return nil, err
	}
	if err := w.spool.clear(); err != nil {
		return nil, err
	}
	st := state{Claim: claim, Number: number, Destination: w.config.Store.String(), Key: rand.Text()}
	if err := datadir.WriteJSON(w.stateFile(), st); err != nil {
		return nil, err
	}
	w.attempt = nil
	w.config.Log.Info("the journal begins a chain", "destination", w.config.Store, "chain", number, "reason", claim.Reason)
	return newSession(w, st, nil)
}

// claim creates the chain.json with the next number, if this server may write to
// the destination. newest is the ID of the newest chain when this server was
// restored from an earlier one; empty if it was not. A claim that an earlier attempt has
// created, whose answer was lost, replaces the given one.
func (w *Writer) claim(ctx context.Context, claim *Claim, newest string) (int, error) {
	reason := claim.Reason
	for range claimAttempts {
		claim.Reason = reason
		number, err := w.nextChainNumber(ctx, claim, newest)
		if err != nil {
			return 0, err
		}
		attempt := *claim
		w.attempt = &attempt
		data, err := json.MarshalIndent(claim, "", "  ")
		if err != nil {
			return 0, fmt.Errorf("render a claim: %w", err)
		}
		name := chainName(number, chainFile)
		err = w.create(ctx, name, data)
		if err == nil {
			return number, w.verifyConditionalCreate(ctx, name, data)
		}
		if !errors.Is(err, ErrExists) {
			return 0, err
		}
		// The response to an attempt may have been lost.
		if existing, err := readClaim(ctx, w.config.Store, number); err == nil && existing.ID == claim.ID {
			return number, nil
		}
	}
	return 0, fmt.Errorf("claim a chain of %s: other servers were faster %d times: give each server a destination of "+
		"its own", w.config.Store, claimAttempts)
}

func (w *Writer) create(ctx context.Context, name string, data []byte) error {
	return w.config.Store.Create(ctx, name, bytes.NewReader(data), int64(len(data)))
}

// verifyConditionalCreate creates the object again, which must fail. Storage that does not
// honour the condition would let two servers overwrite each other's objects. The object
// must have its content.
func (w *Writer) verifyConditionalCreate(ctx context.Context, name string, data []byte) error {
	createErr := w.create(ctx, name, data)
	if createErr != nil && !errors.Is(createErr, ErrExists) {
		return createErr
	}
	stored, err := readAll(ctx, w.config.Store, name, maxClaim)
	switch {
	case err != nil && !isMissing(err) && !errors.Is(err, ErrDamaged):
		return err
	case err != nil || !bytes.Equal(stored, data):
		return &refusedError{text: fmt.Sprintf("%s has confirmed %s and does not have it as it was written: check "+
			"the storage, or use another one", w.config.Store, name)}
	case createErr == nil:
		return &refusedError{text: fmt.Sprintf("%s ignores If-None-Match and overwrites objects, so that two servers "+
			"could destroy each other's journal: use storage with conditional writes", w.config.Store)}
	}
	return nil
}

// nextChainNumber returns the number of the next chain, or that of an earlier attempt, or a
// refusedError if the destination belongs to another server.
func (w *Writer) nextChainNumber(ctx context.Context, claim *Claim, restoredNewest string) (int, error) {
	numbers, err := chainNumbers(ctx, w.config.Store)
	if err != nil {
		return 0, err
	}
	if len(numbers) == 0 {
		return 1, nil
	}
	number, owner, unclaimed, err := newestClaim(ctx, w.config.Store, numbers)
	switch {
	case err != nil:
		return 0, err
	case owner == nil:
	case w.attempt != nil && owner.ID == w.attempt.ID:
		*claim = *w.attempt
		return number, nil
	case !w.mayWriteAfter(owner, claim, restoredNewest):
		return 0, w.refusal(owner)
	}
	for _, number := range unclaimed {
		claim.Reason += fmt.Sprintf("; chain %d has no %s that can be read: it cannot be restored", number, chainFile)
	}
	return numbers[len(numbers)-1] + 1, nil
}

// mayWriteAfter reports whether this server may write after the owner of the newest chain.
func (w *Writer) mayWriteAfter(owner, claim *Claim, restoredNewest string) bool {
	return owner.Writer == w.id || w.former != "" && owner.Writer == w.former ||
		owner.ID == claim.Restored || owner.ID == restoredNewest || owner.Writer == w.config.TakeOver
}

func (w *Writer) refusal(owner *Claim) error {
	var st state
	wrote, err := datadir.ReadJSON(w.stateFile(), &st) // resume has reported an error
	superseded := wrote && err == nil && st.Destination == w.config.Store.String()
	return &refusedError{superseded: superseded, text: fmt.Sprintf("%[1]s is the journal of another server (%[2]s, "+
		"on %[3]s since %[4]s), and one server at a time writes to it: if this server has lost its data, stop it and run "+
		"`kube-hyper-mini backup restore --from %[1]s --data-dir %[5]s`; if not, give this server a destination of its "+
		"own; if the other one does not exist any more, set journal.takeOver to %[2]q",
		w.config.Store, owner.Writer, owner.Host, owner.Created.Local().Format(time.DateTime), w.config.DataDir)}
}

// stillOwner returns an error if the chain is missing from the destination, or
// if a newer one has been claimed.
func (w *Writer) stillOwner(ctx context.Context, st state) error {
	numbers, err := chainNumbers(ctx, w.config.Store)
	if err != nil {
		return err
	}
	if len(numbers) == 0 && !strings.HasPrefix(w.config.Store.String(), "s3://") { // a bucket is not mounted
		// The chain does not end: while its disk is not mounted, a new one would be
		// written to the mount point.
		return fmt.Errorf("%s does not have chain %d: mount its disk (if the chain was removed, a new one begins "+
			"when the spool is full)", w.config.Store, st.Number)
	}
	number, owner, _, err := newestClaim(ctx, w.config.Store, numbers)
	switch {
	case err != nil:
		return err
	case number < st.Number:
		return chainEnd("%s of the destination has disappeared or cannot be read", chainName(st.Number, chainFile))
	case number > st.Number:
		return chainEnd("chain %d was begun by the writer %s on %s", number, owner.Writer, owner.Host)
	case owner.ID != st.Claim.ID:
		return chainEnd("chain %d of the destination is another one", number)
	}
	return nil
}
