package faults

import (
	"fmt"
	"hash/maphash"
	"math"
	"slices"
	"testing"

	"github.com/anishathalye/porcupine"
)

// The objects that the clients of a history share.
const shared = 4

// verb is the kind of a request.
type verb string

const (
	verbCreate verb = "create"
	verbUpdate verb = "update"
	verbRemove verb = "delete"
	verbGet    verb = "get"
	verbList   verb = "list"
	verbBegin  verb = "begin" // of an era: the objects are those of the answer
)

// request is the input of an operation.
type request struct {
	verb    verb
	era     int    // counts the servers of a history
	key     int    // of an object, less than shared
	value   string // to write; differs in all writes of a history
	version uint64 // precondition of an update or delete; 0 is none
}

// result is the kind of an answer.
type result string

const (
	done     result = "done"
	notFound result = "not found"
	exists   result = "already exists"
	conflict result = "conflict"
	unknown  result = "unknown" // no answer, 429 or 5xx: it happened or not
)

// answer is the output of an operation.
type answer struct {
	result  result
	version uint64 // of the object or the list; 0 for a delete
	value   string // of a get
	all     [shared]item
}

// item is an object in a list; an empty value is no object.
type item struct {
	value   string
	version uint64
}

// cell is an object in the model; an empty value is no object.
type cell struct {
	item
	open bool // the write was not answered: its version is not known
}

func (c cell) is(i item) bool {
	return c.value == i.value && (c.value == "" || c.has(i.version))
}

func (c cell) has(version uint64) bool { return c.open || version == c.version }

// state is a state of the model. It is comparable.
type state struct {
	cells  [shared]cell
	newest uint64 // no version is below it
}

// eras splits a history where no request is under way and all objects are known. The
// history is linearizable if and only if each era is.
func eras(operations []porcupine.Operation) [][]porcupine.Operation {
	var split [][]porcupine.Operation
	for _, o := range operations {
		for len(split) <= o.Input.(request).era {
			split = append(split, nil)
		}
		split[o.Input.(request).era] = append(split[o.Input.(request).era], o)
	}
	return split
}

// model returns the sequential specification of a server.
func model() porcupine.Model {
	seed := maphash.MakeSeed()
	m := porcupine.NondeterministicModel{
		Partition: eras,
		Init:      func() []any { return []any{state{}} },
		Step: func(before, input, output any) []any {
			s, in, out := before.(state), input.(request), output.(answer)
			if out.result != unknown {
				if !s.step(in, out) {
					return nil
				}
				return []any{s}
			}
			after := s
			after.lost(in)
			return []any{s, after}
		},
		Hash:              func(s any) uint64 { return maphash.Comparable(seed, s.(state)) },
		DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v: %+v", input, output) },
		DescribeState:     func(s any) string { return fmt.Sprintf("%+v", s) },
	}
	return m.ToModel()
}

// step applies an answered request. It returns false if the state does not
// permit the answer.
func (s *state) step(in request, out answer) bool {
	c := &s.cells[in.key]
	switch in.verb {
	case verbGet:
		if out.result == notFound {
			return c.value == ""
		}
		seen := item{out.value, out.version}
		return c.value != "" && c.is(seen) && s.reads(in.key, seen)
	case verbList:
		for key, seen := range out.all {
			if !s.cells[key].is(seen) || !s.reads(key, seen) {
				return false
			}
		}
		return s.advance(out.version, true)
	case verbBegin:
		for key, seen := range out.all {
			s.cells[key] = cell{item: seen}
		}
		s.newest = out.version
		return true
	}
	switch {
	case in.verb == verbCreate && out.result == exists:
		return c.value != ""
	case in.verb == verbCreate:
		if c.value != "" {
			return false
		}
	case out.result == notFound:
		return c.value == ""
	case out.result == conflict:
		return c.value != "" && in.version != 0 && (c.open || c.version != in.version)
	case c.value == "" || in.version != 0 && !c.has(in.version):
		return false
	}
	if in.verb == verbRemove {
		*c = cell{}
		s.newest++ // it has a version, which is not answered
		return true
	}
	*c = cell{item: item{in.value, out.version}}
	return s.advance(out.version, false)
}

// reads records the version of an object that was written without an answer.
func (s *state) reads(key int, seen item) bool {
	if seen.value != "" {
		s.cells[key] = cell{item: seen}
		s.newest = max(s.newest, seen.version)
	}
	return true
}

// advance records a version. A list may repeat the newest, a write may not.
func (s *state) advance(version uint64, same bool) bool {
	if version < s.newest || version == s.newest && !same {
		return false
	}
	s.newest = version
	return true
}

// lost applies a write without an answer if the state permits it.
func (s *state) lost(in request) {
	c := &s.cells[in.key]
	if permitted := (c.value == "") == (in.verb == verbCreate) && (in.version == 0 || c.has(in.version)); !permitted {
		return
	}
	switch in.verb {
	case verbCreate, verbUpdate:
		*c = cell{item: item{value: in.value}, open: true}
	case verbRemove:
		*c = cell{}
	default:
		return
	}
	s.newest++
}

// TestModel: the checker accepts histories that are linearizable, and refuses
// each that is not.
func TestModel(t *testing.T) {
	t.Parallel()
	const never = math.MaxInt64
	op := func(call, end int64, in request, out answer) porcupine.Operation {
		return porcupine.Operation{Call: call, Return: end, Input: in, Output: out}
	}
	wrote := func(version uint64) answer { return answer{result: done, version: version} }
	read := func(value string, version uint64) answer {
		return answer{result: done, value: value, version: version}
	}
	listed := func(version uint64, all ...item) answer {
		out := answer{result: done, version: version}
		copy(out.all[:], all)
		return out
	}
	begun := func(version uint64, all ...item) porcupine.Operation {
		return op(20, 20, request{verb: verbBegin, era: 1}, listed(version, all...))
	}
	created := op(1, 2, request{verb: verbCreate, value: "a"}, wrote(10))
	later := func(o porcupine.Operation) porcupine.Operation {
		in := o.Input.(request)
		in.era = 1
		o.Input = in
		return o
	}
	for name, c := range map[string]struct {
		want    bool
		history []porcupine.Operation
	}{
		"a read during a write": {true, []porcupine.Operation{created,
			op(3, 8, request{verb: verbUpdate, value: "b"}, wrote(11)), op(4, 5, request{verb: verbGet}, read("a", 10)), op(6, 7, request{verb: verbGet}, read("b", 11))}},
		"a lost answer, done": {true, []porcupine.Operation{created,
			op(3, never, request{verb: verbUpdate, value: "b", version: 10}, answer{result: unknown}), op(4, 5, request{verb: verbGet}, read("b", 11))}},
		"a lost answer, done later": {true, []porcupine.Operation{created,
			op(3, never, request{verb: verbRemove}, answer{result: unknown}), op(4, 5, request{verb: verbGet}, read("a", 10)), op(6, 7, request{verb: verbGet}, answer{result: notFound})}},
		"a lost answer, not done": {true, []porcupine.Operation{created,
			op(3, never, request{verb: verbRemove}, answer{result: unknown}), op(4, 5, request{verb: verbUpdate, value: "b", version: 10}, wrote(11))}},
		"a restore to a backup": {true, []porcupine.Operation{created, op(3, 4, request{verb: verbList}, listed(10, item{"a", 10})),
			op(5, 6, request{verb: verbRemove}, answer{result: done}), begun(100, item{"a", 10}), later(op(22, 23, request{verb: verbGet}, read("a", 10)))}},
		"a write during a backup": {true, []porcupine.Operation{created, op(3, 6, request{verb: verbList}, listed(10, item{"a", 10})),
			op(4, 5, request{verb: verbUpdate, value: "b"}, wrote(11)), begun(100, item{"a", 10}), later(op(22, 23, request{verb: verbGet}, read("a", 10)))}},

		"a lost update": {false, []porcupine.Operation{created,
			op(3, 6, request{verb: verbUpdate, value: "b", version: 10}, wrote(11)), op(4, 7, request{verb: verbUpdate, value: "c", version: 10}, wrote(12))}},
		"a stale read": {false, []porcupine.Operation{created,
			op(3, 4, request{verb: verbUpdate, value: "b"}, wrote(11)), op(5, 6, request{verb: verbGet}, read("a", 10))}},
		"two reads during a write that go back": {false, []porcupine.Operation{created,
			op(3, 8, request{verb: verbUpdate, value: "b"}, wrote(11)), op(4, 5, request{verb: verbGet}, read("b", 11)), op(6, 7, request{verb: verbGet}, read("a", 10))}},
		"a resurrected object": {false, []porcupine.Operation{created,
			op(3, 4, request{verb: verbRemove}, answer{result: done}), op(5, 6, request{verb: verbGet}, read("a", 10))}},
		"a resurrected object after a lost answer": {false, []porcupine.Operation{created,
			op(3, never, request{verb: verbRemove}, answer{result: unknown}), op(4, 5, request{verb: verbGet}, answer{result: notFound}), op(6, 7, request{verb: verbGet}, read("a", 10))}},
		"an object that is gone": {false, []porcupine.Operation{created, op(3, 4, request{verb: verbGet}, answer{result: notFound})}},
		"a write done after the server's end": {false, []porcupine.Operation{created,
			op(3, 4, request{verb: verbUpdate, value: "b"}, answer{result: unknown}), op(5, 6, request{verb: verbGet}, read("a", 10)), op(7, 8, request{verb: verbGet}, read("b", 11))}},
		"a conflict without a reason": {false, []porcupine.Operation{created,
			op(3, 4, request{verb: verbUpdate, value: "b", version: 10}, answer{result: conflict})}},
		"a create twice":           {false, []porcupine.Operation{created, op(3, 4, request{verb: verbCreate, value: "b"}, wrote(11))}},
		"a version that goes back": {false, []porcupine.Operation{created, op(3, 4, request{verb: verbUpdate, value: "b"}, wrote(9))}},
		"a list that goes back":    {false, []porcupine.Operation{created, op(3, 4, request{verb: verbList}, listed(9, item{"a", 10}))}},
		"a list of two moments": {false, []porcupine.Operation{created,
			op(3, 4, request{verb: verbCreate, key: 1, value: "b"}, wrote(11)), op(5, 6, request{verb: verbUpdate, value: "c"}, wrote(12)),
			op(3, 7, request{verb: verbList}, listed(12, item{"c", 12}))}},
		"two lists of one version with a delete between them": {false, []porcupine.Operation{created, op(3, 4, request{verb: verbList}, listed(11, item{"a", 10})),
			op(5, 6, request{verb: verbRemove}, answer{result: done}), op(7, 8, request{verb: verbList}, listed(11))}},
		"a write done after a restart": {false, []porcupine.Operation{created, op(3, 4, request{verb: verbUpdate, value: "b"}, answer{result: unknown}),
			op(5, 20, request{verb: verbList}, listed(10, item{"a", 10})), begun(10, item{"a", 10}), later(op(22, 23, request{verb: verbGet}, read("b", 11)))}},
		"a restart that lost a write": {false, []porcupine.Operation{created, op(3, 20, request{verb: verbList}, listed(10)), begun(10)}},
		"a restore that lost a write": {false, []porcupine.Operation{created, op(3, 4, request{verb: verbList}, listed(10)), begun(100)}},
		"a restore that has a later write": {false, []porcupine.Operation{created, op(3, 4, request{verb: verbList}, listed(11, item{"b", 11})),
			op(5, 6, request{verb: verbUpdate, value: "b"}, wrote(11)), begun(100, item{"b", 11})}},
		"a restore that has a later write and not an earlier one": {false, []porcupine.Operation{created,
			op(3, 4, request{verb: verbCreate, key: 1, value: "b"}, wrote(11)), op(5, 6, request{verb: verbUpdate, value: "c"}, wrote(12)),
			op(1, 20, request{verb: verbList}, listed(12, item{"c", 12})), begun(100, item{"c", 12})}},
		"a version that is used again after a restore": {false, []porcupine.Operation{created, begun(100, item{"a", 10}),
			later(op(22, 23, request{verb: verbUpdate, value: "c"}, wrote(11)))}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := porcupine.CheckOperations(model(), slices.Clone(c.history)); got != c.want {
				t.Errorf("linearizable: %t, want %t", got, c.want)
			}
		})
	}
}
