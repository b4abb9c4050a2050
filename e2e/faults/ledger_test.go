package faults

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

// The keys of the config maps that the ledgers write.
const (
	writerKey = "writer"
	tokenKey  = "token" // differs in each create
	valueKey  = "value" // and in each update
)

// object is the recorded state of an existing object.
type object struct {
	name, uid, token, value string
	version                 uint64
}

// ledger records the acknowledged writes of one writer, which is the only one
// that writes its objects. A write without an answer is open: it may have
// happened or not.
type ledger struct {
	id     string
	n      int
	made   atomic.Int64      // writes that were acknowledged
	exists map[string]object // by token
	gone   map[string]bool   // tokens that were deleted

	openCreate string // token
	openUpdate *object
	openDelete string // token
}

func newLedger(id int) *ledger {
	return &ledger{id: strconv.Itoa(id), exists: map[string]object{}, gone: map[string]bool{}}
}

func (l *ledger) next() string {
	l.n++
	return l.id + "-" + strconv.Itoa(l.n)
}

// write makes random writes until one is not answered. A refusal is an error:
// all writes are valid.
func (l *ledger) write(ctx context.Context, maps typedcorev1.ConfigMapInterface) error {
	for ctx.Err() == nil {
		var err error
		switch dice := rand.IntN(10); {
		case len(l.exists) < 5 || len(l.exists) < 100 && dice < 4:
			err = l.create(ctx, maps)
		case dice < 7:
			err = l.update(ctx, maps)
		default:
			err = l.remove(ctx, maps)
		}
		var status apierrors.APIStatus
		if errors.As(err, &status) && status.Status().Code < http.StatusInternalServerError {
			return fmt.Errorf("writer %s was refused: %w", l.id, err)
		}
		if err != nil {
			return nil
		}
		l.made.Add(1)
	}
	return nil
}

func (l *ledger) create(ctx context.Context, maps typedcorev1.ConfigMapInterface) error {
	token := l.next()
	l.openCreate = token
	created, err := maps.Create(ctx, &corev1.ConfigMap{
		// A create that happens twice makes two objects.
		ObjectMeta: metav1.ObjectMeta{GenerateName: "ledger-"},
		Data:       map[string]string{writerKey: l.id, tokenKey: token, valueKey: token},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	l.openCreate, l.exists[token] = "", read(created)
	return nil
}

func (l *ledger) any() object {
	tokens := slices.Collect(maps.Keys(l.exists))
	return l.exists[tokens[rand.IntN(len(tokens))]]
}

func (l *ledger) update(ctx context.Context, maps typedcorev1.ConfigMapInterface) error {
	o := l.any()
	o.value = l.next()
	l.openUpdate = &o
	updated, err := maps.Update(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: o.name, ResourceVersion: strconv.FormatUint(o.version, 10)},
		Data:       map[string]string{writerKey: l.id, tokenKey: o.token, valueKey: o.value},
	}, metav1.UpdateOptions{})
	if err != nil {
		return err
	}
	l.openUpdate, l.exists[o.token] = nil, read(updated)
	return nil
}

func (l *ledger) remove(ctx context.Context, maps typedcorev1.ConfigMapInterface) error {
	o := l.any()
	l.openDelete = o.token
	if err := maps.Delete(ctx, o.name, metav1.DeleteOptions{}); err != nil {
		return err
	}
	delete(l.exists, o.token)
	l.openDelete, l.gone[o.token] = "", true
	return nil
}

func read(m *corev1.ConfigMap) object {
	return object{
		name: m.Name, uid: string(m.UID), token: m.Data[tokenKey], value: m.Data[valueKey],
		version: version(m.ResourceVersion),
	}
}

// version parses a resourceVersion; no object has 0.
func version(text string) uint64 {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// newest returns the highest acknowledged version.
func (l *ledger) newest() uint64 {
	newest := uint64(0)
	for _, o := range l.exists {
		newest = max(newest, o.version)
	}
	return newest
}

// check compares this writer's objects on the server with the ledger, and
// settles open writes.
func (l *ledger) check(t *testing.T, found []object) {
	t.Helper()
	byToken := map[string]object{}
	for _, o := range found {
		if twin, twice := byToken[o.token]; twice {
			t.Errorf("one create made %s and %s", twin.name, o.name)
		}
		byToken[o.token] = o
		if l.gone[o.token] {
			t.Errorf("%s was deleted and is there again: %+v", o.token, o)
		}
		if _, known := l.exists[o.token]; !known && o.token != l.openCreate && !l.gone[o.token] {
			t.Errorf("there is %+v, which was never written", o)
		}
	}
	for token, want := range l.exists {
		got, there := byToken[token]
		update := l.openUpdate
		switch {
		case got == want:
		case !there && token == l.openDelete:
			l.gone[token] = true
		case there && update != nil && update.token == token && got.value == update.value && got.uid == want.uid && got.version > want.version:
		default:
			t.Errorf("acknowledged was %+v, there is %+v (%t)", want, got, there)
		}
	}
	l.exists = byToken
	l.openCreate, l.openUpdate, l.openDelete = "", nil, ""
}
