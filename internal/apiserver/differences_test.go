package apiserver

import (
	"crypto"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	controlplane "k8s.io/kubernetes/pkg/controlplane/apiserver"
	"k8s.io/kubernetes/pkg/controlplane/apiserver/options"
	kubeoptions "k8s.io/kubernetes/pkg/kubeapiserver/options"

	"kube-hyper-mini.io/kube-hyper-mini/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/storage"
	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/connections"
	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/kube"
)

// differencesFile lists every difference from kube-apiserver with its reason.
const differencesFile = "DIFFERENCES.md"

// TestDifferencesFromKubeAPIServer compares flags, their defaults, admission
// plugins and the generic configuration with kube-apiserver's, and fails for
// each difference that differencesFile does not list, and for each row in it
// that is no difference.
func TestDifferencesFromKubeAPIServer(t *testing.T) {
	ours, err := NewOptions(defaultSettings())
	if err != nil {
		t.Fatal(err)
	}
	theirs := options.NewOptions()
	found := map[string]string{}
	compareFlags(found, theirs, ours.upstream)
	comparePlugins(found, ours)
	ourConfig, theirConfig := genericConfigs(t, ours, theirs)
	compareConfigs(found, "", reflect.ValueOf(*theirConfig), reflect.ValueOf(*ourConfig))
	compareLongRunning(t, theirConfig.LongRunningFunc, ourConfig.LongRunningFunc)

	listed := listedDifferences(t)
	for _, what := range slices.Sorted(maps.Keys(found)) {
		if row, ok := listed[what]; !ok {
			t.Errorf("%s does not list a difference:\n| %s | %s | REASON |", differencesFile, what, found[what])
		} else if row != found[what] {
			t.Errorf("%s says of %s:\n%s\nand the values are:\n%s", differencesFile, what, row, found[what])
		}
	}
	for _, what := range slices.Sorted(maps.Keys(listed)) {
		if _, ok := found[what]; !ok {
			t.Errorf("%s lists %s, which does not differ", differencesFile, what)
		}
	}
}

// listedDifferences maps the first cell of each row to its two values. Rows
// about kube-apiserver's own flags are for the test that can see those.
func listedDifferences(t *testing.T) map[string]string {
	t.Helper()
	content, err := os.ReadFile(differencesFile)
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]string{}
	for line := range strings.Lines(string(content)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		kind, _, _ := strings.Cut(cells[0], " ")
		if len(cells) < 4 || !slices.Contains([]string{"flag", "admission", "config"}, kind) {
			continue
		}
		if cells[3] == "" {
			t.Errorf("%s gives no reason for %s", differencesFile, cells[0])
		}
		listed[cells[0]] = cells[1] + " | " + cells[2]
	}
	return listed
}

// flagValues are the flags of an option set with their values.
func flagValues(o *options.Options) map[string]string {
	var sections cliflag.NamedFlagSets
	o.AddFlags(&sections)
	values := map[string]string{}
	for _, section := range sections.FlagSets {
		section.VisitAll(func(f *pflag.Flag) { values[f.Name] = f.Value.String() })
	}
	return values
}

func compareFlags(found map[string]string, theirs, ours *options.Options) {
	ourValues := flagValues(ours)
	for name, value := range flagValues(theirs) {
		if _, isOwned := owned[name]; isOwned {
			found["flag "+name] = "a flag | refused"
		} else if ourValues[name] != value {
			found["flag "+name] = cell(value) + " | " + cell(ourValues[name])
		}
	}
}

func comparePlugins(found map[string]string, ours *Options) {
	on := func(off sets.Set[string]) sets.Set[string] {
		return sets.New(kubeoptions.AllOrderedPlugins...).Difference(off)
	}
	theirs, our := on(kubeoptions.DefaultOffAdmissionPlugins()), on(ours.upstream.Admission.GenericAdmission.DefaultOffPlugins)
	for name := range theirs.Difference(our) {
		found["admission "+name] = "on | off"
	}
	for name := range our.Difference(theirs) {
		found["admission "+name] = "off | on"
	}
}

// genericConfigs builds what the three API servers share, with our steps and
// with kube-apiserver's.
func genericConfigs(t *testing.T, ours *Options, theirs *options.Options) (our, their *genericapiserver.Config) {
	t.Helper()
	files, tokenKey := testFiles(t)
	private, err := keyutil.PrivateKeyFromFile(tokenKey)
	if err != nil {
		t.Fatal(err)
	}
	signer := private.(crypto.Signer)
	keys := NewTokenKeys()
	if err := keys.Set(signer, []crypto.PublicKey{signer.Public()}); err != nil {
		t.Fatal(err)
	}
	cfg := Config{Files: files, TokenKeys: keys, Listener: testListener(t), Storage: &storage.Storage{}}
	completed, err := ours.complete(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	b := &builder{config: cfg, options: completed, Server: &Server{loopback: kube.NewLoopback(t.Context()), writes: newNamespaceWrites()}}
	if b.cached, err = cachePolicy(completed.Etcd); err != nil {
		t.Fatal(err)
	}
	if _, err := b.genericConfig(); err != nil {
		t.Fatal(err)
	}

	// What kube-apiserver cannot run without is the same on both sides.
	theirs.SecureServing.Listener = testListener(t)
	theirs.SecureServing.BindPort = completed.SecureServing.BindPort
	theirs.SecureServing.BindAddress = completed.SecureServing.BindAddress
	theirs.GenericServerRunOptions.AdvertiseAddress = completed.GenericServerRunOptions.AdvertiseAddress
	theirs.SecureServing.ServerCert = completed.SecureServing.ServerCert
	theirs.Authentication.ClientCert = completed.Authentication.ClientCert
	theirs.Authentication.RequestHeader = completed.Authentication.RequestHeader
	theirs.Authentication.ServiceAccounts.KeyFiles = []string{tokenKey}
	theirs.Authentication.ServiceAccounts.Issuers = completed.Authentication.ServiceAccounts.Issuers
	theirs.ServiceAccountSigningKeyFile = tokenKey
	theirs.Authorization.Modes = completed.Authorization.Modes
	theirs.Etcd.StorageConfig.Transport.ServerList = []string{embeddedEndpoint}
	theirs.Etcd.SkipHealthEndpoints = true // it would dial
	theirCompleted, err := theirs.Complete(t.Context(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	their, _, _, err = controlplane.BuildGenericConfig(theirCompleted, []*runtime.Scheme{legacyscheme.Scheme}, kube.DefaultResources(), kube.OpenAPIDefinitions(false))
	if err != nil {
		t.Fatal(err)
	}
	return b.generic, their
}

func testListener(t *testing.T) *Listener {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	return connections.NewServed(listener)
}

// testFiles is an identity with one certificate for all purposes, whose key also signs
// tokens.
func testFiles(t *testing.T) (files Files, tokenKey string) {
	t.Helper()
	certificate, key, err := cert.GenerateSelfSignedCertKey("localhost", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	certFile, keyFile := filepath.Join(t.TempDir(), "tls.crt"), filepath.Join(t.TempDir(), "tls.key")
	for file, data := range map[string][]byte{certFile: certificate, keyFile: key} {
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return Files{
		ServingCert: certFile, ServingKey: keyFile, ClientCAs: []string{certFile}, FrontProxyCA: certFile,
		FrontProxyCert: certFile, FrontProxyKey: keyFile,
	}, keyFile
}

// compareConfigs notes the fields that have plain values and differ, and those
// that only one side has set.
func compareConfigs(found map[string]string, prefix string, theirs, ours reflect.Value) {
	for i := range theirs.NumField() {
		field := theirs.Type().Field(i)
		if !field.IsExported() {
			continue
		}
		their, our := theirs.Field(i), ours.Field(i)
		name := prefix + field.Name
		switch {
		case name == "LoopbackClientConfig", name == "PublicAddress", name == "Authentication": // compared in part, or by other tests
		case name == "SecureServing":
			compareConfigs(found, "SecureServing.", their.Elem(), our.Elem())
		case field.Type == reflect.TypeOf(genericapiserver.NewConfig(legacyscheme.Codecs).DisabledPostStartHooks):
			for _, hook := range our.MapKeys() {
				if !their.MapIndex(hook).IsValid() {
					found["config "+name+" "+hook.String()] = "on | off"
				}
			}
		case strings.HasSuffix(name, "zChecks"):
			compareChecks(found, name, their, our)
		case plain(field.Type):
			if !reflect.DeepEqual(their.Interface(), our.Interface()) {
				found["config "+name] = cell(fmt.Sprint(their)) + " | " + cell(fmt.Sprint(our))
			}
		case nilable(field.Type) && their.IsNil() != our.IsNil():
			found["config "+name] = set(their) + " | " + set(our)
		}
	}
}

func compareChecks(found map[string]string, name string, theirs, ours reflect.Value) {
	names := func(checks reflect.Value) sets.Set[string] {
		list := sets.New[string]()
		for i := range checks.Len() {
			list.Insert(checks.Index(i).MethodByName("Name").Call(nil)[0].String())
		}
		return list
	}
	their, our := names(theirs), names(ours)
	for check := range our.SymmetricDifference(their) {
		if strings.HasPrefix(check, "etcd") {
			continue // left out on the other side, see genericConfigs
		}
		found["config "+name+" "+check] = fmt.Sprint(their.Has(check)) + " | " + fmt.Sprint(our.Has(check))
	}
}

func plain(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Slice:
		return plain(t.Elem())
	case reflect.Bool, reflect.String, reflect.Int, reflect.Int64, reflect.Uint16, reflect.Float64:
		return true
	}
	return t == reflect.TypeFor[time.Duration]()
}

func nilable(t reflect.Type) bool {
	return slices.Contains([]reflect.Kind{reflect.Pointer, reflect.Interface, reflect.Func, reflect.Map}, t.Kind())
}

func set(v reflect.Value) string {
	if v.IsNil() {
		return "none"
	}
	return "set"
}

// cell is a value as a cell of a table has it.
func cell(value string) string {
	if value == "" {
		return "(empty)"
	}
	return value
}

// compareLongRunning compares both predicates for the verbs and subresources of
// Kubernetes. Only the paths of this program may differ.
func compareLongRunning(t *testing.T, theirs, ours request.LongRunningRequestCheck) {
	t.Helper()
	r := &http.Request{Method: http.MethodPost, URL: &url.URL{Path: "/apis/example.com/v1/namespaces/default/things/one"}}
	for _, verb := range []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "proxy", "post"} {
		for _, subresource := range []string{"", "status", "scale", "attach", "exec", "proxy", "log", "portforward", "eviction", "token", "finalize"} {
			info := &request.RequestInfo{IsResourceRequest: true, Verb: verb, Resource: "things", Subresource: subresource, Path: r.URL.Path}
			if their, our := theirs(r, info), ours(r, info); their != our {
				t.Errorf("%s of things/%s is long-running: %t here, %t in kube-apiserver", verb, subresource, our, their)
			}
		}
	}
	if info := (&request.RequestInfo{Verb: "post", Path: OwnPrefix + "backup"}); !ours(r, info) {
		t.Errorf("POST %s is not long-running", info.Path)
	}
}

// defaultSettings are those of an empty configuration file.
func defaultSettings() Settings {
	cfg := config.Default()
	return Settings{APIServer: cfg.APIServer, Serving: cfg.Serving, External: cfg.Etcd.External, Limits: cfg.Limits, Profile: cfg.APIs.Profile}
}
