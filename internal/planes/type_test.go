package planes

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"kube-hyper-mini.io/kube-hyper-mini/config"
	"kube-hyper-mini.io/kube-hyper-mini/controlplane"
)

// TestConfiguration: a control plane has its own profile, and the bounds of its host, so that its users
// cannot reach or cost what those of the host cannot (TestFieldsOfTheHost has the others).
func TestConfiguration(t *testing.T) {
	host := config.Default()
	host.Serving.BindAddress = "0.0.0.0"
	got := configuration(host, "acme", "acme-1", Spec{Profile: config.ProfileKubernetes})
	if got.Serving.OnLoopbackOnly() {
		t.Error("it may call servers on loopback, which its host may not")
	}
	if got.APIs.Profile != config.ProfileKubernetes || got.Etcd.Embedded.QuotaBackend != host.Planes.QuotaBackend {
		t.Errorf("profile %s, quota %v", got.APIs.Profile, got.Etcd.Embedded.QuotaBackend)
	}
}

// TestHostConfiguration: a size of the watch cache that the host's configuration has is kept, and
// the configuration is not changed.
func TestHostConfiguration(t *testing.T) {
	const ours = "controlplanes.planes.kube-hyper-mini.io#"
	for given, want := range map[string]string{
		"":                  ours + "0",
		"configmaps#5":      "configmaps#5," + ours + "0",
		"a#1," + ours + "9": "a#1," + ours + "9",
	} {
		host := config.Default()
		if given != "" {
			host.APIServer.Flags = map[string]config.Scalar{"watch-cache-sizes": config.Scalar(given)}
		}
		if got := string(hostConfiguration(host).APIServer.Flags["watch-cache-sizes"]); got != want {
			t.Errorf("%q: %q, want %q", given, got, want)
		}
		if got := string(host.APIServer.Flags["watch-cache-sizes"]); got != given {
			t.Errorf("the configuration of the caller has %q instead of %q", got, given)
		}
	}
}

// TestValidate: what a host cannot do is refused, and no path leads out of its directories.
func TestValidate(t *testing.T) {
	host := config.Default()
	for want, spec := range map[string]Spec{
		"spec.profile":            {Profile: "all"},
		"spec.deletion":           {Deletion: "Keep"},
		"spec.sleepAfter":         {SleepAfter: Amount{"1ms"}},
		"spec.lifetime":           {Lifetime: Amount{"soon"}},
		"spec.quota.bytes":        {Quota: Quota{Bytes: Amount{"1Mi"}}},
		"is not a quantity":       {Quota: Quota{Bytes: Amount{"8Gb"}}},
		"spec.quota.objects":      {Quota: Quota{Objects: -1}},
		"exclude each other":      {From: From{ControlPlane: "a", Backup: "b"}},
		"spec.from.controlPlane":  {From: From{ControlPlane: "../a"}},
		"spec.from.backup":        {From: From{Backup: "../../etc/passwd"}},
		"planes.journal":          {From: From{Journal: "acme"}},
		"spec.from.at":            {From: From{ControlPlane: "a", At: metav1.Now()}},
		"spec.from.at: Invalid":   {From: From{Journal: "acme", At: metav1.NewTime(time.Now().Add(time.Hour))}},
		"is itself":               {From: From{ControlPlane: "acme"}},
		"spec.crds.configMaps[0]": {CRDs: CRDs{ConfigMaps: []ConfigMap{{Namespace: "a/b", Name: "c"}}}},
		"spec.crds.controlPlane":  {CRDs: CRDs{ControlPlane: "A"}},
		`"acme": is itself`:       {CRDs: CRDs{ControlPlane: "acme"}},
		"spec.backup.schedule":    {Backup: Backup{Schedule: "daily"}},
		"never fires":             {Backup: Backup{Schedule: "0 0 30 2 *"}},
		"spec.backup.keep":        {Backup: Backup{Keep: -1}},
		"spec.journal: Forbidden": {Journal: &Journal{}},
		"spec.journal.interval":   {Journal: &Journal{Interval: Amount{"1ms"}}},
	} {
		o := &object{Spec: spec}
		o.Name = "acme"
		if err := validate(host, o, nil).ToAggregate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %s", spec, err, want)
		}
	}
	valid := &object{Spec: Spec{Deletion: deletionArchive, Quota: Quota{Bytes: Amount{"64Mi"}, Objects: 10}, Backup: Backup{Schedule: "@daily"}, From: From{Backup: "acme/archive-1.tar.gz"}}}
	valid.Name = "acme"
	if errs := validate(host, valid, nil); len(errs) > 0 {
		t.Error(errs)
	}
	stored := &object{Spec: Spec{CRDs: CRDs{ControlPlane: "acme"}}} // by a former release
	stored.Name = "acme"
	if errs := validate(host, stored, stored); len(errs) > 0 {
		t.Errorf("its finalizer cannot be removed: %v", errs)
	}
	gone := &object{}
	gone.Name, gone.DeletionTimestamp = "acme", &metav1.Time{Time: time.Now()}
	if err := validate(host, valid, gone).ToAggregate(); err == nil || !strings.Contains(err.Error(), "is being deleted") {
		t.Errorf("another origin of one that is being deleted: %v", err)
	}
	applied, other := &object{Spec: Spec{CRDs: CRDs{ControlPlane: "a"}}}, &object{Spec: Spec{CRDs: CRDs{ControlPlane: "b"}}}
	if errs := validate(host, other, applied); len(errs) > 0 {
		t.Errorf("another source of CRDs before the first start: %v", errs)
	}
	applied.Status.CRDs = "hash"
	if err := validate(host, other, applied).ToAggregate(); err == nil || !strings.Contains(err.Error(), "spec.crds.controlPlane: Forbidden") {
		t.Errorf("another source of CRDs after the first start: %v", err)
	}
	for path, below := range map[string]bool{
		"acme": true, "acme/x.tar.gz": true, "": false, ".": false, "..": false, "/etc": false, "a/../../b": false, "a/..": false, "a//b": false,
		"a\\..\\b": false, "C:x": false, "s3://x": false, "a?x": false, "a%2e": false, "...": false,
	} {
		if isBelow(path) != below {
			t.Errorf("%q is below: %t", path, !below)
		}
	}
}

// TestNumbersAsAmounts: a number is a quantity; where it cannot be one, and as a duration, the error
// names the field, whatever kubectl sends.
func TestNumbersAsAmounts(t *testing.T) {
	h := newHost(t)
	h.create(t, "acme", map[string]any{"quota": map[string]any{"bytes": 100 << 20}})
	for what, send := range map[string]func(spec string) error{
		"create": func(spec string) error {
			content := map[string]any{}
			if err := json.Unmarshal([]byte(spec), &content); err != nil {
				return err
			}
			return h.tryCreate(t.Context(), "beta", content)
		},
		"apply":               func(spec string) error { return h.patch(t, types.StrategicMergePatchType, spec) },
		"patch --type merge":  func(spec string) error { return h.patch(t, types.MergePatchType, spec) },
		"apply --server-side": func(spec string) error { return h.patch(t, types.ApplyPatchType, spec) },
	} {
		for spec, want := range map[string]string{
			`{"quota": {"bytes": 5}}`:           `spec.quota.bytes: Invalid value: "5": at least 64Mi`,
			`{"sleepAfter": 10}`:                `spec.sleepAfter: Invalid value: "10": "10" is not a duration; write a number with a unit`,
			`{"journal": {"retention": 3}}`:     `spec.journal.retention: Invalid value: "3"`,
			`{"lifetime": true}`:                `spec.lifetime: Invalid value: "true"`,
			`{"quota": {"bytes": "50000000m"}}`: `spec.quota.bytes`,
		} {
			if err := send(spec); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "patch:") {
				t.Errorf("%s %s: %v, want %s", what, spec, err, want)
			}
		}
	}
	if err := h.patch(t, types.ApplyPatchType, `{"quota": {"bytes": 209715200}}`); err != nil {
		t.Errorf("a number of bytes: %v", err)
	}
}

// patch changes acme.
func (h *testHost) patch(t *testing.T, as types.PatchType, spec string) error {
	t.Helper()
	body := fmt.Sprintf(`{"apiVersion": %q, "kind": "ControlPlane", "metadata": {"name": "acme"}, "spec": %s}`, Resource.GroupVersion(), spec)
	options := metav1.PatchOptions{}
	if as == types.ApplyPatchType {
		options.FieldManager, options.Force = "test", ptr.To(true)
	}
	_, err := h.objects.Patch(t.Context(), "acme", as, []byte(body), options)
	return err
}

// TestLastUsed: the column has "now" for what is awake: the status has the last use before it woke.
func TestLastUsed(t *testing.T) {
	t.Parallel()
	columns := kind(config.Default()).Columns
	column := columns[slices.IndexFunc(columns, func(c controlplane.Column) bool { return c.Name == "Last used" })]
	hourAgo := metav1.NewTime(time.Now().Add(-time.Hour))
	for want, status := range map[string]Status{
		"never": {Phase: phaseAsleep}, "60m": {Phase: phaseAsleep, LastUsed: hourAgo}, "now": {Phase: phaseAwake, LastUsed: hourAgo},
	} {
		if got := column.Value(&object{Status: status}); got != want {
			t.Errorf("%+v: %v instead of %s", status, got, want)
		}
	}
}
