package faults

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// specimen is the journal of a server that has ended, as files, and what is in it.
type specimen struct {
	dir      string
	segments []segmentFile
	bases    []string // names relative to dir, as those of segments
	versions []uint64 // of the config maps "object-0", ...
}

// segmentFile is a segment and its first and last revision.
type segmentFile struct {
	name        string
	first, last uint64
}

// makeSpecimen runs a server until the prefix of the bucket has some segments.
func makeSpecimen(t *testing.T, store *harness.S3, prefix string) *specimen {
	t.Helper()
	config := harness.ConfigFile(t, fmt.Sprintf("journal: {destination: %q, endpoint: %q, region: us-east-1, credentialsFile: %q, interval: 100ms}\n",
		store.URL(prefix), store.Endpoint, store.CredentialsFile))
	s := &specimen{dir: filepath.Join(store.Dir, prefix)}
	server := harness.Start(t, "--config", config)
	server.WaitLog("the journal has a new base")
	maps := server.Client().CoreV1().ConfigMaps("default")
	for i := range 6 {
		created, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("object-%d", i)}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		s.versions = append(s.versions, version(created.ResourceVersion))
		awaitJournaled(t, server)
	}
	if code := server.Stop(); code != 0 {
		t.Fatalf("the server ended with exit code %d", code)
	}
	s.read(t)
	return s
}

// awaitJournaled waits until the destination has everything.
func awaitJournaled(t *testing.T, s *harness.Server) {
	t.Helper()
	harness.Eventually(t, "the journal has everything", func() error {
		text, err := s.Client().RESTClient().Get().AbsPath("/kube-hyper-mini/status").DoRaw(t.Context())
		if err != nil {
			return err
		}
		var status struct {
			Journal struct{ Chain, LagRevisions int64 }
		}
		if err := json.Unmarshal(text, &status); err != nil {
			return err
		}
		if status.Journal.Chain == 0 || status.Journal.LagRevisions > 0 {
			return fmt.Errorf("%+v", status.Journal)
		}
		return nil
	})
}

const (
	claimName    = "chains/00000001/chain.json"
	basesPath    = "chains/00000001/bases"
	segmentsPath = "chains/00000001/segments"
)

// read lists the files.
func (s *specimen) read(t *testing.T) {
	t.Helper()
	for _, file := range filesIn(t, filepath.Join(s.dir, basesPath)) {
		s.bases = append(s.bases, basesPath+"/"+file)
	}
	for _, file := range filesIn(t, filepath.Join(s.dir, segmentsPath)) {
		segment := segmentFile{name: segmentsPath + "/" + file}
		var sequence int
		if _, err := fmt.Sscanf(file, "%d-%d-%d-", &sequence, &segment.first, &segment.last); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		s.segments = append(s.segments, segment)
	}
	if len(s.bases) != 1 || len(s.segments) < 5 {
		t.Fatalf("the journal has the bases %q and the segments %+v", s.bases, s.segments)
	}
}

// filesIn returns the names in a directory, in order.
func filesIn(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

// last is the last revision of the journal.
func (s *specimen) last() uint64 { return s.segments[len(s.segments)-1].last }

// objects returns how many of the objects a revision has.
func (s *specimen) objects(revision uint64) (n int) {
	for _, version := range s.versions {
		if version <= revision {
			n++
		}
	}
	return n
}

// damaged is a damaged copy of a journal.
type damaged struct {
	t    *testing.T
	dir  string
	from []string // arguments that name it
	env  []string
}

// run runs a command on the journal.
func (d *damaged) run(code int, args ...string) string {
	d.t.Helper()
	out, got := harness.CLIWith(d.t, d.env, append(args, d.from...)...)
	if got != code {
		d.t.Errorf("%q exits with %d, want %d: %s", args, got, code, out)
	}
	return out
}

// restores restores a state into a new directory, which must have the revision and its
// objects, and returns what the command has printed.
func (d *damaged) restores(s *specimen, want uint64, flags ...string) string {
	d.t.Helper()
	dir := filepath.Join(d.t.TempDir(), "data")
	out := d.run(harness.ExitOK, append([]string{"backup", "restore", "--data-dir", dir}, flags...)...)
	if d.t.Failed() {
		return out
	}
	if got := revisionIn(d.t, out); got != want {
		d.t.Errorf("revision %d was restored, want %d: %s", got, want, out)
	}
	server := harness.StartIn(d.t, dir)
	list, err := server.Client().CoreV1().ConfigMaps("default").List(d.t.Context(), metav1.ListOptions{})
	if err != nil {
		d.t.Fatal(err)
	}
	found := 0
	for _, item := range list.Items {
		if strings.HasPrefix(item.Name, "object-") {
			found++
		}
	}
	if found != s.objects(want) {
		d.t.Errorf("revision %d has %d objects, want %d", want, found, s.objects(want))
	}
	server.Stop()
	return out
}

// refuses restores a state, which must fail without a data directory.
func (d *damaged) refuses(flags ...string) string {
	d.t.Helper()
	dir := filepath.Join(d.t.TempDir(), "data")
	out := d.run(harness.ExitFailure, append([]string{"backup", "restore", "--data-dir", dir}, flags...)...)
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		d.t.Errorf("the restore that was refused has made the data directory: %v", err)
	}
	return out
}

// damage is one way to damage a journal.
type damage struct {
	name string
	// do damages the copy.
	do func(d *damaged) error
	// last is the last revision that can be restored; 0 if there is none.
	last uint64
	// list and restore have what the commands must print.
	list, restore []string
}

// briefDamages is how many of the damages each run of the tests does.
const briefDamages = 6

// damages lists what can happen to a journal; other is that of another server.
func damages(s, other *specimen) []damage {
	number := len(s.segments) - 2 // some objects are before it, some in it or later
	bad, before := s.segments[number-1], s.segments[number-2].last
	later := s.bases[0][:strings.LastIndex(s.bases[0], "-")] + other.bases[0][strings.LastIndex(other.bases[0], "-"):]
	path := func(d *damaged, name string) string { return filepath.Join(d.dir, filepath.FromSlash(name)) }
	copies := func(d *damaged, from, to string) error {
		data, err := os.ReadFile(filepath.Join(other.dir, filepath.FromSlash(from)))
		if err != nil {
			return err
		}
		return os.WriteFile(path(d, to), data, 0o600)
	}
	half := func(d *damaged, name string) error {
		info, err := os.Stat(path(d, name))
		if err != nil {
			return err
		}
		return os.Truncate(path(d, name), info.Size()/2)
	}
	flips := func(d *damaged, name string) error {
		info, err := os.Stat(path(d, name))
		if err != nil {
			return err
		}
		flip(d.t, path(d, name), info.Size()/2)
		return nil
	}
	return []damage{
		{"a flipped byte in a segment", func(d *damaged) error { return flips(d, bad.name) }, before, nil, []string{bad.name, "does not match its SHA-256 sum"}},
		{"a missing segment", func(d *damaged) error { return os.Remove(path(d, bad.name)) }, before,
			[]string{fmt.Sprintf("segments %d to %d are missing", number, number)}, []string{fmt.Sprintf("segments %d to %d of chain 1", number, number), fmt.Sprintf("follow revision %d", before), "are missing"}},
		{"a chain that ends in the middle", func(d *damaged) error {
			for _, segment := range s.segments[number-1:] {
				if err := os.Remove(path(d, segment.name)); err != nil {
					return err
				}
			}
			return nil
		}, before, []string{fmt.Sprintf(" to %d ", before)}, nil},
		{"a truncated segment", func(d *damaged) error { return half(d, bad.name) }, before, nil, []string{bad.name, "does not match its SHA-256 sum"}},
		{"a flipped byte in the base", func(d *damaged) error { return flips(d, s.bases[0]) }, 0, nil, []string{s.bases[0], "damaged"}},
		{"an empty segment", func(d *damaged) error { return os.Truncate(path(d, bad.name), 0) }, before, nil, []string{bad.name, "it has 0 bytes only"}},
		{"a segment of another server in its place", func(d *damaged) error { return copies(d, other.segments[len(other.segments)-2].name, bad.name) }, before, nil, []string{bad.name, "of another server"}},
		{"a truncated base", func(d *damaged) error { return half(d, s.bases[0]) }, 0, nil, []string{s.bases[0], "damaged"}},
		{"a missing base", func(d *damaged) error { return os.Remove(path(d, s.bases[0])) }, 0, []string{"it has no base"}, []string{"cannot be restored"}},
		{"the base of another server beside it", func(d *damaged) error {
			return copies(d, other.bases[0], later)
		}, s.last(), nil, []string{later, "of another server", "using the one before it"}},
		{"a truncated claim", func(d *damaged) error { return half(d, claimName) }, 0, []string{"chain.json"}, []string{"chain.json"}},
	}
}

// TestDamagedJournal: what is wrong with a journal in S3 or in a directory is named, and
// what precedes it can be restored.
func TestDamagedJournal(t *testing.T) {
	t.Parallel()
	store := harness.StartS3(t)
	s, other := makeSpecimen(t, store, "first"), makeSpecimen(t, store, "second")
	for i, c := range damages(s, other) {
		for place, in := range []string{"S3", "a directory"} {
			if os.Getenv("FAULT_ROUNDS") == "" && (i >= briefDamages || i%2 != place) {
				continue // at length, all in both places
			}
			t.Run(c.name+" in "+in, func(t *testing.T) {
				d := &damaged{t: t, dir: filepath.Join(t.TempDir(), "journal"), env: store.Env}
				d.from = []string{"--from", d.dir}
				if in == "S3" {
					prefix := fmt.Sprintf("damaged-%d", i)
					d.dir = filepath.Join(store.Dir, prefix)
					d.from = []string{"--from", store.URL(prefix), "--endpoint", store.Endpoint, "--region", "us-east-1"}
				}
				err := os.CopyFS(d.dir, os.DirFS(s.dir))
				if err == nil {
					err = c.do(d)
				}
				if err != nil {
					t.Fatal(err)
				}
				c.check(d, s)
			})
		}
	}
}

// check compares what the commands print and restore.
func (c damage) check(d *damaged, s *specimen) {
	d.t.Helper()
	harness.Contains(d.t, d.run(harness.ExitOK, "backup", "list"), c.list...)
	if c.last == 0 {
		harness.Contains(d.t, d.refuses(), c.restore...)
		return
	}
	harness.Contains(d.t, d.restores(s, c.last), c.restore...)
	if c.last < s.last() {
		want := append([]string{strconv.FormatUint(c.last, 10)}, c.restore...)
		if c.restore == nil {
			want = []string{"backup list --from " + d.from[1]} // which has the last revision
		}
		harness.Contains(d.t, d.refuses("--revision", strconv.FormatUint(s.last(), 10)), want...)
	}
}
