package config

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func write(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// check loads and validates a file.
func check(t *testing.T, text string) (*ServerConfiguration, error) {
	t.Helper()
	cfg, source, err := Load(write(t, text))
	if err != nil {
		return nil, err
	}
	return cfg, source.Locate(cfg.Validate())
}

const header = "apiVersion: kube-hyper-mini.io/v1alpha1\nkind: ServerConfiguration\n"

// service is a file with an endpoint of that service.
func service(namespace, name, targets string) string {
	return header + "serviceEndpoints: [{namespace: " + namespace + ", name: " + name + ", targets: [" + targets + "]}]\n"
}

// TestValidFiles: settings of journals are for the control planes, too.
func TestValidFiles(t *testing.T) {
	for _, text := range []string{
		header + "journal: {stopIfSuperseded: true}\nplanes: {enabled: true, journal: /mnt/journal}\n",
		service("ns", "svc", `"https://10.0.0.7:8443", "https://h.example.org", "https://[::1]:1"`),
	} {
		if _, err := check(t, text); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestDocumentedFileEqualsDefaults(t *testing.T) {
	const file = "config.yaml"
	documented, _, err := Load(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Default(), documented, cmpopts.IgnoreUnexported(ServerConfiguration{})); diff != "" {
		t.Errorf("config/config.yaml differs from the built-in defaults (-built-in +file):\n%s", diff)
	}
	// Every field must be there, not only every value: a field that is left
	// out has its default too.
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, source, err := Parse(file, data)
	if err != nil {
		t.Fatal(err)
	}
	builtIn, err := Default().Marshal()
	if err != nil {
		t.Fatal(err)
	}
	_, all, err := Parse("defaults", builtIn)
	if err != nil {
		t.Fatal(err)
	}
	for path := range all.lines {
		if _, ok := source.lines[path]; !ok {
			t.Errorf("config/config.yaml does not document %s", path)
		}
	}
}

func TestLoadKeepsDefaultsOfUnsetFields(t *testing.T) {
	cfg, _, err := Load(write(t, header+`
serving: {port: 7443, extraSANs: [mini.example.org]}
etcd: {embedded: {quotaBackend: 512Mi, fsync: false}}
apiServer:
  flags: {goaway-chance: 0.001, profiling: false, event-ttl: 2h, service-account-issuer: [https://a, 2]}
  runtimeConfig: {coordination.k8s.io/v1beta1: true}
`))
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Serving.Port != 7443 || cfg.Serving.BindAddress != "127.0.0.1" {
		t.Errorf("serving is %+v", cfg.Serving)
	}
	if got := cfg.Etcd.Embedded.QuotaBackend.Value(); got != 512<<20 || cfg.Etcd.Embedded.Fsync {
		t.Errorf("etcd.embedded is %+v", cfg.Etcd.Embedded)
	}
	want := map[string]Scalar{"goaway-chance": "0.001", "profiling": "false", "event-ttl": "2h", "service-account-issuer": "https://a\n2"}
	if diff := cmp.Diff(want, cfg.APIServer.Flags); diff != "" {
		t.Errorf("flags (-want +got):\n%s", diff)
	}
	again, err := json.Marshal(cfg.APIServer.Flags["service-account-issuer"])
	if err != nil || string(again) != `["https://a","2"]` {
		t.Errorf("a list of a flag is rendered as %s, %v", again, err)
	}
	if got := cfg.APIServer.RuntimeConfig["coordination.k8s.io/v1beta1"]; got != "true" {
		t.Errorf("runtimeConfig has %q", got)
	}
	if diff := cmp.Diff([]string{"secrets"}, cfg.APIServer.Encryption.Resources); diff != "" {
		t.Errorf("encryption.resources (-want +got):\n%s", diff)
	}
}

// TestKeysWithoutValue: they keep the defaults, for each type of field. The tree has no pointers.
func TestKeysWithoutValue(t *testing.T) {
	for name, text := range map[string]string{
		"list":     "apiServer: {encryption: {resources: }}\nserviceEndpointPolicy:\n  deniedNetworks:\n  allowedNetworks: ~\n",
		"quantity": "limits: {writesAtOnce: , largestList: null}\netcd: {embedded: {quotaBackend: }}\n",
		"duration": "serving: {stopGrace: }\njournal: {interval: , retention: ~}\n",
		"scalars":  "dataDir:\nserving: {port: , bindAddress: }\netcd: {embedded: {fsync: }}\n",
		"mapping":  "limits:\nserving:\netcd: {embedded: , external: }\n",
		"map":      "apiServer: {flags: , featureGates: ~, runtimeConfig: null}\n",
		"entry":    "apiServer: {flags: {profiling: }, featureGates: {A: ~}}\n",
		"renamed":  "archive: {retention: , destination: }\n", "renamed, none": "archive:\n",
		"alias": "dataDir: &none\nlimits: {largestList: *none}\n",
	} {
		t.Run(name, func(t *testing.T) {
			cfg, _, err := Load(write(t, header+text))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(Default(), cfg, cmpopts.IgnoreUnexported(ServerConfiguration{})); diff != "" {
				t.Errorf("(-default +loaded):\n%s", diff)
			}
		})
	}
	if cfg, _, err := Load(write(t, header+"apiServer: {flags: {max: 9223372036854775807}}\n")); err != nil || cfg.APIServer.Flags["max"] != "9223372036854775807" {
		t.Errorf("%v; a large number is not kept: %+v", err, cfg)
	}
}

func TestLoadRefuses(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		want []string
	}{
		"an unknown field":           {header + "servng: {}\n", []string{":3: servng: unknown field", `did you mean "serving"?`, "allowed here: "}},
		"an unknown nested field":    {header + "etcd:\n  embedded:\n    quota: 8Gi\n", []string{":5: etcd.embedded.quota: unknown field", "quotaBackend"}},
		"a field set twice":          {header + "dataDir: /a\ndataDir: /b\n", []string{":4: dataDir: set twice", "line 3"}},
		"a map key set twice":        {header + "apiServer:\n  flags:\n    v: 1\n    v: 2\n", []string{":6: apiServer.flags.v: set twice"}},
		"a number for a string":      {header + "dataDir: 12\n", []string{`:3: dataDir: must be a string (put it in quotes), got "12"`}},
		"a string for a number":      {header + "serving:\n  port: \"6443\"\n", []string{`:4: serving.port: must be a whole number, got "6443"`}},
		"a string for a boolean":     {header + "etcd: {embedded: {fsync: \"no\"}}\n", []string{`:3: etcd.embedded.fsync: must be true or false, got "no"`}},
		"a list without flags":       {header + "apiServer: {flags: {goaway-chance: []}}\n", []string{":3: apiServer.flags.goaway-chance: has no items"}},
		"no value in a flag":         {header + "apiServer: {flags: {v: [1, ~]}}\n", []string{":3: apiServer.flags.v[1]: has no value"}},
		"a list in a list of flags":  {header + "apiServer: {flags: {v: [[1]]}}\n", []string{":3: apiServer.flags.v[0]: must be a string, number or boolean, got a list"}},
		"a mapping for a list":       {header + "serving: {extraSANs: {}}\n", []string{"serving.extraSANs: must be a list, got a mapping"}},
		"an item without a value":    {header + "apiServer: {encryption: {resources: [secrets, ~]}}\n", []string{":3: apiServer.encryption.resources[1]: has no value; write one, or remove the item"}},
		"a list for a mapping":       {header + "serving: []\n", []string{"serving: must be a mapping, got a list"}},
		"a wrong unit":               {header + "etcd:\n  embedded:\n    quotaBackend: \"8Gb\"\n", []string{`:5: etcd.embedded.quotaBackend: "8Gb" is not a quantity; did you mean "8Gi"?`}},
		"no quantity at all":         {header + "etcd: {embedded: {quotaBackend: lots}}\n", []string{`"lots" is not a quantity; write a number`}},
		"a tiny quota":               {header + "etcd:\n  embedded:\n    quotaBackend: 1Mi\n", []string{":5: etcd.embedded.quotaBackend: 1Mi is too small"}},
		"a port out of range":        {header + "serving: {port: 70000}\n", []string{":3: serving.port: 70000 is not a port"}},
		"a host for an address":      {header + "serving: {bindAddress: localhost}\n", []string{`"localhost" is not an IP address`}},
		"a bad SAN":                  {header + "serving:\n  extraSANs:\n  - ok.example\n  - not_ok!\n", []string{":6: serving.extraSANs[1]: "}},
		"a decimal mode":             {header + "kubeconfig: {mode: \"0888\"}\n", []string{`:3: kubeconfig.mode: "0888" is not a file mode`}},
		"an unreadable mode":         {header + "kubeconfig: {mode: \"0000\"}\n", []string{"unreadable for its owner"}},
		"an unknown log format":      {header + "logging: {format: xml}\n", []string{`logging.format: "xml" is not supported; allowed: text, json`}},
		"audit without a policy":     {header + "apiServer: {audit: {logPath: /tmp/a}}\n", []string{"apiServer.audit.logPath: needs apiServer.audit.policyFile"}},
		"a missing file":             {header + "apiServer:\n  tracing:\n    configFile: /does/not/exist\n", []string{":5: apiServer.tracing.configFile: open /does/not/exist"}},
		"half a client certificate":  {header + "etcd: {external: {certFile: /dev/null}}\n", []string{"certFile and keyFile go together"}},
		"an endpoint without a port": {header + "etcd: {external: {endpoints: [\"https://etcd.example.com\"]}}\n", []string{"etcd.external.endpoints[0]: ", "write https://etcd.example.com:2379"}},
		"planes on an external etcd": {header + "planes: {enabled: true}\netcd: {external: {endpoints: [\"http://a:2379\"]}}\n", []string{":3: planes.enabled: needs the embedded etcd"}},
		"planes that never sleep":    {header + "planes: {sleepAfter: 0s, maxAwake: 0, requestsInFlight: 0, quotaBackend: 1Mi}\n", []string{"planes.sleepAfter: 0s is too short", "planes.maxAwake: 0 is out of range", "planes.requestsInFlight: 0 is out of range", "planes.quotaBackend: 1Mi is too small"}},
		"a bad endpoint":             {header + "etcd: {external: {endpoints: [\"etcd:2379\"]}}\n", []string{"etcd.external.endpoints[0]: ", "https://host:2379"}},
		"an endpoint with a path":    {header + "etcd:\n  external:\n    endpoints:\n    - https://a:2379/\n    - https://b:2379/registry\n", []string{`:7: etcd.external.endpoints[1]: "https://b:2379/registry" has more than a host and a port`, "write https://b:2379, "}},
		"an endpoint with a query":   {header + "etcd: {external: {endpoints: [\"http://a:2379?x=1\"]}}\n", []string{":3: etcd.external.endpoints[0]: ", "more than a host and a port"}},
		"an endpoint with a user":    {header + "etcd: {external: {endpoints: [\"http://u:secret@a:2379\"]}}\n", []string{":3: etcd.external.endpoints[0]: has a user"}},
		"a user without a scheme":    {header + "etcd: {external: {endpoints: [\"u:secret@a:2379\"]}}\n", []string{":3: etcd.external.endpoints[0]: has a user"}},
		"a date that does not exist": {header + "backup: {schedule: \"0 0 30 2 *\"}\n", []string{":3: backup.schedule: ", "never fires"}},
		"a negative limit":           {header + "limits:\n  watchesPerUser: -1\n", []string{":4: limits.watchesPerUser: -1 is negative; 0 is without limit"}},
		"more than all for one":      {header + "limits: {namespacePercent: 101}\n", []string{":3: limits.namespacePercent: 101 is out of range"}},
		"another kind":               {"apiVersion: v1\nkind: ConfigMap\n", []string{`:1: apiVersion: "v1" is not supported`, `:2: kind: "ConfigMap" is not supported`}},
		"no kind":                    {"apiVersion: kube-hyper-mini.io/v1alpha1\n", []string{"kind: missing; add kind: ServerConfiguration"}},
		"two documents":              {header + "---\n" + header, []string{"a second YAML document"}},
		"no mapping":                 {"- a\n", []string{":1: not a mapping"}},
		"no YAML":                    {"a: [\n", []string{"not a YAML document"}},
		"several things at once":     {header + "a: 1\nb: 2\n", []string{":3: a: unknown field", ":4: b: unknown field"}},
		// Only shells expand "~". Without the error there would be a directory of that name.
		"a home directory": {header + "dataDir: ~/data\nbackup: {dir: ~/backups}\nserving: {certFile: ~you/tls.crt, keyFile: ~you/tls.key}\n",
			[]string{`:3: dataDir: "~`, `:4: backup.dir: "~`, `serving.certFile: "~`, `serving.keyFile: "~`}},
		"a URL for a path": {header + "backup: {dir: \"s3://bucket/mini\"}\nmanifests: {dir: \"https://example.org/m\"}\n",
			[]string{`backup.dir: "s3://bucket/mini" is a URL`, `manifests.dir: "https://example.org/m" is a URL`}},
		// A server cannot restore from an encrypted journal by itself.
		"an encrypted journal": {header + "journal: {destination: /mnt/journal, restoreIfEmpty: true}\nbackup: {encryptTo: [age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p]}\n",
			[]string{"journal.restoreIfEmpty: needs a journal that is not encrypted"}},
		// Settings without their directory would have no effect.
		"a restore without a journal":    {header + "journal: {restoreIfEmpty: true}\n", []string{"journal.destination: is empty"}},
		"a stop without a journal":       {header + "journal: {stopIfSuperseded: true}\n", []string{"journal.destination: is empty"}},
		"required without manifests":     {header + "manifests: {required: true}\n", []string{"manifests.required: needs manifests.dir"}},
		"a pruning without manifests":    {header + "manifests: {prune: true}\n", []string{"manifests.prune: needs manifests.dir"}},
		"a service without targets":      {service("ns", "svc", ""), []string{":3: serviceEndpoints[0].targets: is empty"}},
		"a target without TLS":           {service("ns", "svc", `"http://a:1"`), []string{`"http://a:1" is not a target`}},
		"a target with a path":           {service("ns", "svc", `"https://a:1/path"`), []string{":3: serviceEndpoints[0].targets[0]"}},
		"a target with a wrong port":     {service("ns", "svc", `"https://a:99999"`), []string{"no port from 1 to 65535"}},
		"a service in no namespace":      {service("n.s", "svc", `"https://a:1"`), []string{"is not a namespace"}},
		"a service with a wrong name":    {service("ns", "a.b", `"https://a:1"`), []string{"is not the name of a Service"}},
		"a service that is listed twice": {service("ns", "svc", `"https://a:1"]}, {namespace: ns, name: svc, targets: ["https://b:1"`), []string{"is listed twice"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := check(t, test.text)
			if err == nil {
				t.Fatal("it was accepted")
			}
			if strings.Contains(err.Error(), "secret") {
				t.Errorf("a password is in the error:\n%v", err)
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q is missing in:\n%v", want, err)
				}
			}
		})
	}
}

func TestLocateNamesTheNearestLine(t *testing.T) {
	_, source, err := Load(write(t, header+"apiServer:\n  featureGates:\n    A: true\n"))
	if err != nil {
		t.Fatal(err)
	}
	located := source.Locate(errors.Join(
		&FieldError{Path: "apiServer.featureGates", Message: "one"},
		&FieldError{Path: "apiServer.audit.policyFile", Message: "two"},
		&FieldError{Path: "logging", Message: "three"},
		errors.New("four"),
	))
	for _, want := range []string{":4: apiServer.featureGates: one", ":3: apiServer.audit.policyFile: two", "logging: three\n", "four\n"} {
		if !strings.Contains(located.Error(), want) {
			t.Errorf("%q is missing in:\n%v", want, located)
		}
	}
}

func TestDefaultDataDir(t *testing.T) {
	home := func() (string, error) { return "/home/u", nil }
	homeless := func() (string, error) { return "", errors.New("no home") }
	for name, test := range map[string]struct {
		root bool
		xdg  string
		home func() (string, error)
		want string
	}{
		"root":             {true, "/xdg", home, "/var/lib/kube-hyper-mini"},
		"user":             {false, "", home, "/home/u/.local/share/kube-hyper-mini"},
		"user with XDG":    {false, "/xdg", home, "/xdg/kube-hyper-mini"},
		"a relative XDG":   {false, "xdg", home, "/home/u/.local/share/kube-hyper-mini"},
		"without a home":   {false, "", homeless, ""},
		"XDG and homeless": {false, "/xdg", homeless, "/xdg/kube-hyper-mini"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := defaultDataDir(test.root, test.xdg, test.home)
			if got != test.want || (err == nil) == (test.want == "") {
				t.Errorf("got %q, %v; want %q", got, err, test.want)
			}
		})
	}
}

func FuzzLoad(f *testing.F) {
	f.Add([]byte(header))
	f.Add([]byte(header + "etcd: {embedded: {quotaBackend: 8Gb}}\nserving: &a {port: 1}\nkubeconfig: *a\n"))
	f.Add([]byte("a: &a [*a]"))
	f.Add([]byte(header + "serving: {extraSANs: &a [*a], port: \"1\"}\napiServer: {flags: &b {x: *b}, encryption: {resources: *a}}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if cfg, source, err := Parse("config.yaml", data); err == nil {
			_ = source.Locate(cfg.Validate()) // must not panic; what it finds is not the point
		}
	})
}

// TestPathsAreRelativeToTheFile: a configuration can be moved with what it names.
func TestPathsAreRelativeToTheFile(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"policy.yaml", "tokens.pem"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "manifests"), 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "config.yaml")
	text := header + `
dataDir: data
manifests: {dir: manifests}
backup: {dir: /mnt/backups}
journal: {destination: journal}
apiServer:
  audit: {policyFile: policy.yaml, logPath: "-"}
  authentication: {serviceAccountKeyFiles: [tokens.pem]}
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, _, err := Load(file)
	if err != nil {
		t.Fatal(err)
	}
	got := []string{cfg.DataDir, cfg.Manifests.Dir, cfg.Backup.Dir, cfg.APIServer.Audit.PolicyFile, cfg.APIServer.Audit.LogPath, cfg.APIServer.Authentication.ServiceAccountKeyFiles[0], cfg.Journal.Destination}
	want := []string{filepath.Join(dir, "data"), filepath.Join(dir, "manifests"), "/mnt/backups", filepath.Join(dir, "policy.yaml"), "-", filepath.Join(dir, "tokens.pem"), filepath.Join(dir, "journal")}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("paths (-want +got):\n%s", diff)
	}
	for _, destination := range []string{"s3://bucket/prefix", "/mnt/journal"} {
		if cfg, _, err := Load(write(t, header+"journal: {destination: "+destination+"}\n")); err != nil || cfg.Journal.Destination != destination {
			t.Errorf("%s becomes %+v, %v", destination, cfg, err)
		}
	}
}

// TestDurations: days, weeks and years are understood, and print as Go prints durations.
func TestDurations(t *testing.T) {
	for text, want := range map[string]string{"7d": "168h0m0s", "1y": "8760h0m0s", "2w": "336h0m0s", "1d12h": "36h0m0s", "1.5h": "1h30m0s", "90s": "1m30s"} {
		cfg, _, err := Load(write(t, header+"journal: {retention: "+text+"}\n"))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if out, err := cfg.Marshal(); err != nil || !strings.Contains(string(out), "retention: "+want+"\n") {
			t.Errorf("%s is printed as\n%s%v", text, out, err)
		}
	}
	for _, text := range []string{`""`, "30", "d", "-1d", "month", "1.5d"} {
		if _, _, err := Load(write(t, header+"journal: {retention: "+text+"}\n")); err == nil || !strings.Contains(err.Error(), "journal.retention") {
			t.Errorf("%s: %v", text, err)
		}
	}
}
