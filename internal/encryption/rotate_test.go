package encryption

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/server/options/encryptionconfig"
	"k8s.io/apiserver/pkg/storage/value"

	"kube-hyper-mini.io/kube-hyper-mini/internal/etcd"
	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/store"
)

func newEtcd(t *testing.T) *clientv3.Client {
	t.Helper()
	member, stop, err := etcd.Start(t.Context(), etcd.Config{Dir: filepath.Join(t.TempDir(), "etcd"), QuotaBytes: 64 << 20, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	if err := member.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	return member.Client()
}

// apiServer reads and writes with the file as upstream does.
type apiServer struct {
	t      *testing.T
	client *clientv3.Client
	file   string
}

func (a apiServer) transformer(resource schema.GroupResource) value.Transformer {
	a.t.Helper()
	loaded, err := encryptionconfig.LoadEncryptionConfig(a.t.Context(), a.file, false, "id")
	if err != nil {
		a.t.Fatal(err)
	}
	return encryptionconfig.StaticTransformers(loaded.Transformers).TransformerForResource(resource)
}

func (a apiServer) encrypt(ctx context.Context, resource schema.GroupResource) ([]byte, error) {
	return a.transformer(resource).TransformToStorage(ctx, []byte("x"), store.ValueContext("x"))
}

func (a apiServer) put(key, text string, resource schema.GroupResource) {
	a.t.Helper()
	stored, err := a.transformer(resource).TransformToStorage(a.t.Context(), []byte(text), store.ValueContext(key))
	if err != nil {
		a.t.Fatal(err)
	}
	a.store(key, string(stored))
}

// store writes what etcd is to have.
func (a apiServer) store(key, stored string) {
	a.t.Helper()
	if _, err := a.client.Put(a.t.Context(), key, stored); err != nil {
		a.t.Fatal(err)
	}
}

// get returns what a client sees and what etcd has.
func (a apiServer) get(key string, resource schema.GroupResource) (text string, stored []byte) {
	a.t.Helper()
	answer, err := a.client.Get(a.t.Context(), key)
	if err != nil || len(answer.Kvs) != 1 {
		a.t.Fatalf("get %s: %v, %v", key, answer, err)
	}
	plain, _, err := a.transformer(resource).TransformFromStorage(a.t.Context(), answer.Kvs[0].Value, store.ValueContext(key))
	if err != nil {
		a.t.Fatalf("%s cannot be decrypted: %v", key, err)
	}
	return string(plain), answer.Kvs[0].Value
}

var (
	secrets    = schema.GroupResource{Resource: "secrets"}
	configMaps = schema.GroupResource{Resource: "configmaps"}
	widgets    = schema.GroupResource{Group: "example.com", Resource: "widgets"}
	stored     = map[string]schema.GroupResource{
		"/registry/secrets/default/a": secrets, "/registry/secrets/default/b": secrets,
		"/registry/configmaps/default/a": configMaps, "/registry/example.com/widgets/default/a": widgets,
	}
)

// filled is an etcd with secrets and widgets encrypted, and config maps that are
// so no longer.
func filled(t *testing.T) apiServer {
	t.Helper()
	a := apiServer{t, newEtcd(t), filepath.Join(t.TempDir(), "config.yaml")}
	ensure(t, a.file, "secrets", "configmaps", "widgets.example.com")
	for key, resource := range stored {
		a.put(key, "content of "+key, resource)
	}
	ensure(t, a.file, "secrets", "widgets.example.com")
	return a
}

// steppedKV calls step before reads and writes of a rotation, and after old versions were
// removed.
type steppedKV struct {
	clientv3.KV
	step func(name string) error
}

func (s steppedKV) Get(ctx context.Context, key string, options ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	if err := s.step("read"); err != nil {
		return nil, err
	}
	return s.KV.Get(ctx, key, options...)
}

func (s steppedKV) Txn(ctx context.Context) clientv3.Txn {
	if s.step("rewrite") != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		cancel()
	}
	return s.KV.Txn(ctx)
}

func (s steppedKV) Compact(ctx context.Context, revision int64, options ...clientv3.CompactOption) (*clientv3.CompactResponse, error) {
	response, err := s.KV.Compact(ctx, revision, options...)
	return response, errors.Join(err, s.step("compact"))
}

// rotation calls step in each step of the rotation; an error of it ends the step.
func (a apiServer) rotation(step func(name string) error) *Rotation {
	return &Rotation{
		File: a.file, Store: steppedKV{a.client, step}, Root: "/registry",
		Encrypt: func(ctx context.Context, resource schema.GroupResource) ([]byte, error) {
			if err := step("encrypt"); err != nil {
				return nil, err
			}
			return a.encrypt(ctx, resource)
		},
		Alone: func(context.Context) error { return step("alone") },
	}
}

func silent(string) error { return nil }

func alone(context.Context) error { return nil }

func (a apiServer) checkAll() {
	a.t.Helper()
	for key, resource := range stored {
		if text, _ := a.get(key, resource); text != "content of "+key {
			a.t.Errorf("%s reads %q", key, text)
		}
	}
}

func TestRotate(t *testing.T) {
	t.Parallel()
	a := filled(t)
	// Written while nothing was encrypted.
	a.store("/registry/secrets/default/plain", "plain")
	before := keysOf(t, a.file)
	key, rewritten, err := a.rotation(func(name string) error {
		if name != "rewrite" { // which goroutines do
			a.checkAll()
		}
		return nil
	}).Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	a.checkAll()
	after := keysOf(t, a.file)
	if len(after) != 1 || slices.Equal(after, before) || after[0] != store.SecretboxPrefix+key+":" {
		t.Fatalf("the keys were %v and are %v; the new one is said to be %s", before, after, key)
	}
	if want := len(stored) + 1; rewritten != want {
		t.Errorf("%d objects were rewritten, want %d", rewritten, want)
	}
	for key, resource := range map[string]schema.GroupResource{
		"/registry/secrets/default/a": secrets, "/registry/secrets/default/plain": secrets, "/registry/example.com/widgets/default/a": widgets,
	} {
		if _, got := a.get(key, resource); !bytes.HasPrefix(got, []byte(after[0])) {
			t.Errorf("etcd has %.60q of %s", got, key)
		}
	}
	if _, got := a.get("/registry/configmaps/default/a", configMaps); store.IsEncrypted(got) {
		t.Errorf("a config map, which is no longer encrypted, is %.60q", got)
	}
	if Interrupted(a.file) {
		t.Error("the rotation is marked as interrupted")
	}
}

// TestRotateContinues: wherever a rotation ends early, everything can be read,
// also after the next start has seen the file, and the next rotation continues
// with the same key.
func TestRotateContinues(t *testing.T) {
	t.Parallel()
	for _, moment := range []string{"encrypt 1", "read 1", "rewrite 3", "read 2", "alone 2", "compact 1"} {
		t.Run(moment, func(t *testing.T) {
			t.Parallel()
			a := filled(t)
			ctx, cancel := context.WithCancelCause(t.Context())
			var mu sync.Mutex
			steps, crash := map[string]int{}, errors.New("crash")
			_, _, err := a.rotation(func(name string) error {
				mu.Lock()
				defer mu.Unlock()
				if steps[name]++; fmt.Sprint(name, " ", steps[name]) == moment {
					cancel(crash)
				}
				return context.Cause(ctx)
			}).Run(ctx)
			if err == nil || context.Cause(ctx) != crash || !Interrupted(a.file) {
				t.Fatalf("the rotation ended with %v", err)
			}
			newKey := keysOf(t, a.file)[0]
			ensure(t, a.file, "secrets", "widgets.example.com")
			a.checkAll()
			if err := CheckReadable(t.Context(), a.client, "/registry", a.file); err != nil {
				t.Error(err)
			}
			if _, _, err := a.rotation(silent).Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			a.checkAll()
			if keys := keysOf(t, a.file); len(keys) != 1 || keys[0] != newKey {
				t.Errorf("the keys are %v, the first run made %s", keys, newKey)
			}
		})
	}
}

// TestRotateKeepsTheKeyThatIsNeeded: an object that cannot be decrypted is named
// and the old key stays.
func TestRotateKeepsTheKeyThatIsNeeded(t *testing.T) {
	t.Parallel()
	a := filled(t)
	before := keysOf(t, a.file)
	a.store("/registry/secrets/default/damaged", before[0]+"damaged")
	if _, _, err := a.rotation(silent).Run(t.Context()); err == nil || !strings.Contains(err.Error(), "/registry/secrets/default/damaged") {
		t.Errorf("it says %v", err)
	}
	if keys := keysOf(t, a.file); len(keys) != 2 {
		t.Errorf("the keys are %v", keys)
	}
	a.checkAll()
}

// TestRotateWithOtherServers: nothing is begun while other servers use the etcd,
// and the old key stays when one has come meanwhile, until it has gone.
func TestRotateWithOtherServers(t *testing.T) {
	t.Parallel()
	a, others := filled(t), errors.New("other servers use this etcd")
	r := a.rotation(silent)
	r.Alone = func(context.Context) error { return others }
	if _, _, err := r.Run(t.Context()); !errors.Is(err, others) || Interrupted(a.file) {
		t.Errorf("it says %v, begun: %t", err, Interrupted(a.file))
	}
	counts := 0
	r.Alone = func(context.Context) error {
		if counts++; counts == 1 {
			return nil
		}
		return others
	}
	if _, _, err := r.Run(t.Context()); !errors.Is(err, others) || !Interrupted(a.file) {
		t.Errorf("it says %v, unfinished: %t", err, Interrupted(a.file))
	}
	if keys := keysOf(t, a.file); len(keys) != 2 {
		t.Errorf("the keys are %v", keys)
	}
	a.checkAll()
	if _, _, err := a.rotation(silent).Run(t.Context()); err != nil || Interrupted(a.file) {
		t.Errorf("it says %v, unfinished: %t", err, Interrupted(a.file))
	}
	if keys := keysOf(t, a.file); len(keys) != 1 {
		t.Errorf("the keys are %v", keys)
	}
	a.checkAll()
}

func keysOf(t *testing.T, file string) []string {
	t.Helper()
	c, err := read(file)
	if err != nil {
		t.Fatal(err)
	}
	var prefixes []string
	for _, key := range c.secretboxKeys() {
		prefixes = append(prefixes, store.SecretboxPrefix+key.Name+":")
	}
	return prefixes
}

func TestNothingToRotate(t *testing.T) {
	t.Parallel()
	kms := "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n- resources: [secrets]\n  providers:\n  - kms: {apiVersion: v2, name: vault, endpoint: unix:///vault}\n"
	for name, test := range map[string]struct{ content, want string }{"no file": {"", "none to rotate"}, "KMS": {kms, "was edited"}} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "config.yaml")
			if test.content != "" {
				put(t, file, test.content)
			}
			if _, _, err := (&Rotation{File: file, Alone: alone}).Run(t.Context()); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("it says %v", err)
			}
			if Interrupted(file) {
				t.Error("the rotation is marked as interrupted")
			}
		})
	}
}

// TestCheckReadable names what has happened to the key.
func TestCheckReadable(t *testing.T) {
	t.Parallel()
	a := filled(t)
	c, err := read(a.file)
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(a.file)
	if err != nil {
		t.Fatal(err)
	}
	key := c.secretboxKeys()[0]
	a.store("/registry/secrets/default/0-damaged", store.SecretboxPrefix+key.Name+":damaged")
	for name, test := range map[string]struct{ old, new, want string }{
		"own key":                       {},
		"another key":                   {key.Name, "local-other", "namely secretbox key"},
		"another key of the same name":  {key.Secret, "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=", "under the name that"},
		"a secret that is not a secret": {key.Secret, "AAAA", "secretbox needs 32"},
		"no secrets":                    {"- secrets\n", "- configmaps\n", ""},
		"a lost key":                    {string(content), "kind: EncryptionConfiguration\n", "put the right file there"},
		"an empty file":                 {string(content), "", "restore it from a backup"},
		"no file":                       {string(content), "missing", "put the right file there"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "config.yaml")
			put(t, file, strings.ReplaceAll(string(content), test.old, test.new))
			switch {
			case test.old == "":
				file = a.file
			case test.new == "missing":
				file += ".missing"
			}
			err := CheckReadable(t.Context(), a.client, "/registry", file)
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("it says %v", err)
			}
		})
	}
}
