package faults

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// flip inverts a byte of a file.
func flip(t *testing.T, file string, at int64) {
	t.Helper()
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }() // the write has been checked
	b := make([]byte, 1)
	if _, err := f.ReadAt(b, at); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 0xff
	if _, err := f.WriteAt(b, at); err != nil {
		t.Fatal(err)
	}
}

// fileDamage is damage to the files of a data directory that prevents its start.
type fileDamage struct {
	sealed bool // it is done after a stop; else after a kill
	do     func(t *testing.T, dir string) error
	want   []string // in the error
}

func dbOf(dir string) string { return filepath.Join(dir, "etcd", "member", "snap", "db") }

func walOf(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "etcd", "member", "wal", "*.wal"))
	if err != nil || len(files) == 0 {
		t.Fatalf("logs: %v %v", files, err)
	}
	return slices.Max(files)
}

// fileDamages are by name. The data have the config map "precious".
var fileDamages = map[string]fileDamage{
	"a truncated log": {false, func(t *testing.T, dir string) error { return os.Truncate(walOf(t, dir), 20000) }, lostLog},
	"an empty log":    {false, func(t *testing.T, dir string) error { return os.Truncate(walOf(t, dir), 0) }, lostLog},
	"no log":          {true, func(t *testing.T, dir string) error { return os.RemoveAll(filepath.Dir(walOf(t, dir))) }, lostLog},
	"a flipped byte in it": {false, func(t *testing.T, dir string) error {
		_, data := harness.WALRecord(t, walOf(t, dir))
		flip(t, walOf(t, dir), int64(data))
		return nil
	}, []string{"etcd/member/wal", "crc mismatch"}},
	"one in a length in it": {false, func(t *testing.T, dir string) error {
		head, _ := harness.WALRecord(t, walOf(t, dir))
		flip(t, walOf(t, dir), int64(head)+5)
		return nil
	}, lostLog},
	"a truncated database": {false, func(_ *testing.T, dir string) error { return os.Truncate(dbOf(dir), 20000) }, []string{"snap/db cannot be read"}},
	"an empty database":    {false, func(_ *testing.T, dir string) error { return os.Truncate(dbOf(dir), 0) }, []string{"snap/db cannot be read"}},
	"a flipped byte in a key": {true, func(t *testing.T, dir string) error {
		flip(t, dbOf(dir), valueAt(t, dbOf(dir), "precious"))
		return nil
	}, []string{"snap/db is damaged", "seal.json"}},
	"one in a page":        {false, func(t *testing.T, dir string) error { return flipPages(t, dbOf(dir)) }, []string{"snap/db cannot be read", "page"}},
	"no data of etcd":      {true, func(_ *testing.T, dir string) error { return os.RemoveAll(filepath.Join(dir, "etcd", "member")) }, lostData},
	"no directory of etcd": {false, func(_ *testing.T, dir string) error { return os.RemoveAll(filepath.Join(dir, "etcd")) }, lostData},
}

var (
	lostLog  = []string{"etcd/member/wal", "the end of the log is missing"}
	lostData = []string{"was used before", "has no data: move", "version.json"}
)

// TestDamagedFiles: a clear error that names the way back, and never a start
// without what is missing. The files stay as they are.
func TestDamagedFiles(t *testing.T) {
	t.Parallel()
	origin := harness.Start(t)
	if err := put(t, origin, "precious"); err != nil {
		t.Fatal(err)
	}
	if code := origin.Stop(); code != 0 {
		t.Fatalf("the server ended with exit code %d", code)
	}
	killed := filepath.Join(t.TempDir(), "killed") // the same without a stop
	if err := os.CopyFS(killed, os.DirFS(origin.Dir)); err != nil {
		t.Fatal(err)
	}
	harness.StartIn(t, killed).Kill()
	const remedy = "kube-hyper-mini backup restore --data-dir "
	for name, damage := range fileDamages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, from := filepath.Join(t.TempDir(), "data"), killed
			if damage.sealed {
				from = origin.Dir
			}
			if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
				t.Fatal(err)
			}
			if err := damage.do(t, dir); err != nil {
				t.Fatal(err)
			}
			for range 2 { // the first start must not change the result of the second
				ends(t, harness.Launch(t, dir), append(damage.want, dir, remedy)...)
			}
		})
	}
	for name, from := range map[string]string{"none after a stop": origin.Dir, "none after a kill": killed} {
		t.Run(name, func(t *testing.T) { undamaged(t, from) })
	}
}

// briefPlaneDamages are those of TestDamagedPlanes without FAULT_ROUNDS: of the database, of the log,
// and of all. The checks are those of TestDamagedFiles.
var briefPlaneDamages = []string{"a flipped byte in a key", "a truncated log", "no data of etcd"}

// TestDamagedPlanes: a control plane with damaged files does not start and says why; the server and
// the other control planes go on.
func TestDamagedPlanes(t *testing.T) {
	t.Parallel()
	args := []string{"--config", harness.ConfigFile(t, "planes: {enabled: true, sleepAfter: 1h}\n")}
	s := harness.Start(t, args...)
	objects := s.Dynamic().Resource(controlPlanes)
	damages := fileDamages
	if os.Getenv("FAULT_ROUNDS") == "" {
		damages = map[string]fileDamage{}
		for _, name := range briefPlaneDamages {
			damages[name] = fileDamages[name]
		}
	}
	names := map[string]string{"": "intact"} // by damage
	for name := range damages {
		names[name] = fmt.Sprintf("damaged-%d", len(names))
	}
	for _, name := range names {
		if _, err := objects.Create(t.Context(), newPlane(name, ""), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		eventuallyPut(t, s, name, "precious")
	}
	if code := s.Stop(); code != 0 {
		t.Fatalf("the server ended with exit code %d", code)
	}
	s = harness.StartIn(t, s.Dir, args...)
	for name, damage := range damages {
		if !damage.sealed {
			eventuallyPut(t, s, names[name], "awake")
		}
	}
	s.Kill()
	for name, damage := range damages {
		if err := damage.do(t, filepath.Join(s.Dir, "planes", names[name])); err != nil {
			t.Fatal(err)
		}
	}
	s = harness.StartIn(t, s.Dir, args...)
	objects = s.Dynamic().Resource(controlPlanes)
	for name, damage := range damages {
		_, err := planeOf(t, s, names[name]).Get(t.Context(), "precious", metav1.GetOptions{})
		if !apierrors.IsServiceUnavailable(err) {
			t.Errorf("%s: a request gets %v", name, err)
			continue
		}
		harness.Contains(t, err.Error(), damage.want...)
		harness.Eventually(t, "its status says so", func() error {
			o, err := objects.Get(t.Context(), names[name], metav1.GetOptions{})
			if err == nil && !strings.Contains(fmt.Sprint(o.Object["status"]), damage.want[0]) {
				err = fmt.Errorf("it is %v", o.Object["status"])
			}
			return err
		})
	}
	eventuallyPut(t, s, names[""], "afterwards")
	if err := put(t, s, "afterwards"); err != nil {
		t.Errorf("the server: %v", err)
	}
	if code := s.Stop(); code != 0 {
		t.Errorf("the server ended with exit code %d", code)
	}
}

// undamaged checks that an intact copy starts: otherwise each test would pass
// because no copy can be started.
func undamaged(t *testing.T, from string) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	s := harness.StartIn(t, dir)
	if _, err := s.Client().CoreV1().ConfigMaps("default").Get(t.Context(), "precious", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	if code := s.Stop(); code != 0 {
		t.Errorf("the server ended with exit code %d", code)
	}
}

// valueAt returns the offset of the name in the database, as a part of a key.
func valueAt(t *testing.T, file, name string) int64 {
	t.Helper()
	data := harness.ReadFile(t, file)
	at := bytes.Index(data, []byte("/registry/configmaps/default/"+name))
	if at < 0 {
		t.Fatalf("%s is not in %s", name, file)
	}
	return int64(at)
}

// flipPages alters the number of elements of every page but the two with the
// roots, so that those that are in use are among them.
func flipPages(t *testing.T, file string) error {
	t.Helper()
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	const countAt = 10 // in the header of a page of bbolt
	pageSize := int64(os.Getpagesize())
	for page := int64(2); page < min(info.Size()/pageSize, 100); page++ {
		flip(t, file, page*pageSize+countAt)
	}
	return nil
}
