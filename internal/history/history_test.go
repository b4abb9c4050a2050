package history

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	admissionregistrationv1beta1 "k8s.io/api/admissionregistration/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"

	"kube-hyper-mini.io/kube-hyper-mini/internal/journal"
)

func configMap(namespace, name string) Object {
	return Object{Type: Type{GroupResource: schema.GroupResource{Resource: "configmaps"}, Kind: "ConfigMap", Namespaced: true}, Namespace: namespace, Name: name}
}

// TestKeys: keys of built-in and of custom resources, and of a type that is gone.
func TestKeys(t *testing.T) {
	t.Parallel()
	gone := Object{Type: Type{GroupResource: schema.GroupResource{Group: "example.com", Resource: "widgets"}}, Namespace: "a", Name: "b"}
	node := Object{Type: Type{GroupResource: schema.GroupResource{Resource: "nodes"}, Kind: "Node"}, Name: "b"}
	role := Object{Type: Type{GroupResource: schema.GroupResource{Group: "example.com", Resource: "roles"}, Kind: "Role", Namespaced: true}, Namespace: "a", Name: "b"}
	goneRole := Object{Type: Type{GroupResource: role.GroupResource}, Namespace: "a", Name: "b"}
	lease := Object{Type: Type{GroupResource: schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}}, Namespace: "a", Name: "b"}
	for _, c := range []struct {
		object    Object
		key       string
		may, does bool
	}{
		{configMap("a", "b"), "/registry/configmaps/a/b", true, true},
		{configMap("a", "b"), "/other/configmaps/a/b", false, true},
		{configMap("a", "b"), "/registry/configmaps/a/bb", false, false},
		{configMap("a", "b"), "/registry/configmaps/aa/b", false, false},
		{configMap("a", "b"), "/registry/secrets/a/b", true, false},
		{node, "/registry/minions/b", true, true},
		{gone, "/registry/example.com/widgets/a/b", true, true},
		{gone, "/registry/example.com/widgets/b", true, true},
		{gone, "/registry/example.com/widgets/other/b", false, false},
		{gone, "/registry/example.org/widgets/a/b", false, false},
		// A built-in type has the same resource, and lies under it without a group.
		{role, "/registry/example.com/roles/a/b", true, true},
		{role, "/registry/roles/a/b", true, false},
		{goneRole, "/registry/roles/a/b", false, false},
		{lease, "/registry/leases/a/b", true, true},
	} {
		rest := strings.TrimPrefix(strings.TrimPrefix(c.key, "/registry/"), "/other/")
		if may, does := c.object.mayHave("/registry/", c.key), c.object.hasUsualKey(rest); may != c.may || does != c.does {
			t.Errorf("%s at %s: %t and %t, want %t and %t", c.object, c.key, may, does, c.may, c.does)
		}
	}
}

// TestResolve: names as kubectl takes them.
func TestResolve(t *testing.T) {
	t.Parallel()
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, meta.RESTScopeNamespace)
	mapper.Add(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}, meta.RESTScopeRoot)
	for name, want := range map[string]string{
		"configmap": "configmaps ConfigMap true", "ConfigMap": "configmaps ConfigMap true", "configmaps": "configmaps ConfigMap true",
		"widgets": "widgets.example.com Widget false", "widget.example.com": "widgets.example.com Widget false", "Widget.v1.example.com": "widgets.example.com Widget false",
		"gadgets.example.com": "gadgets.example.com  false",
	} {
		if got, err := Resolve(mapper, name); err != nil || fmt.Sprint(got.GroupResource.String(), " ", got.Kind, " ", got.Namespaced) != want {
			t.Errorf("%s: %+v, %v, want %s", name, got, err, want)
		}
	}
	if _, err := Resolve(mapper, "gadget"); err == nil || !strings.Contains(err.Error(), `no type "gadget"`) {
		t.Errorf("a type that does not exist: %v", err)
	}
}

// write is a version as the journal has it; "new" is the first one of an object.
func write(revision int64, first string, managers ...string) objectChange {
	object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{UID: "1"}}
	for i, manager := range managers {
		at := metav1.NewTime(time.Unix(int64(i), 0))
		object.ManagedFields = append(object.ManagedFields, metav1.ManagedFieldsEntry{Manager: manager, Time: &at, FieldsV1: metav1.NewFieldsV1("{}")})
	}
	return objectChange{revision: revision, metadata: object, value: fmt.Append(nil, revision), created: first == "new"}
}

func (r objectChange) dying() objectChange {
	now := metav1.Now()
	r.metadata.DeletionTimestamp = &now
	return r
}

func (r objectChange) inBase() objectChange { r.stored = true; return r }

func removal(revision int64) objectChange { return objectChange{revision: revision, deleted: true} }

// TestVersions: versions that several bases and chains have are listed once, and
// deletions that no part has are found.
func TestVersions(t *testing.T) {
	t.Parallel()
	type part struct{ base, changes []objectChange }
	for _, c := range []struct {
		name  string
		parts []part
		want  string
	}{
		{"a life", []part{{nil, []objectChange{write(1, "new", "a"), write(2, "", "a", "b"), write(3, "", "a", "b").dying(), removal(4)}}},
			"1 created a, 2 changed b, 3 deleting , 4 deleted "},
		{"two bases", []part{{nil, []objectChange{write(1, "new", "a"), write(2, "", "a", "b")}}, {[]objectChange{write(1, "new", "a").inBase(), write(2, "", "a", "b").inBase()}, []objectChange{removal(3)}}},
			"1 created a, 2 changed b, 3 deleted "},
		{"deleted in a gap", []part{{nil, []objectChange{write(1, "new", "a")}}, {nil, nil}, {nil, []objectChange{write(9, "new", "a")}}},
			"1 created a, 100 deleted , 9 created a"},
		{"restored", []part{{nil, []objectChange{write(1, "new", "a"), write(2, "", "a", "b")}}, {[]objectChange{write(1, "new", "a").inBase()}, nil}},
			"1 created a, 2 changed b, 1 restored "},
		{"a deletion of what is not there any more", []part{{[]objectChange{removal(1).inBase()}, nil}}, ""},
	} {
		var got []string
		l := newVersionList(time.Time{}, 0)
		for i, part := range c.parts {
			l.begin(journal.Span{Chain: &journal.Chain{Number: i + 1}, Base: journal.Base{BaseName: journal.BaseName{Revision: 100}}})
			for _, r := range part.base {
				if err := l.add(r); err != nil {
					t.Fatal(err)
				}
			}
			if err := l.based(); err != nil {
				t.Fatal(err)
			}
			for _, r := range part.changes {
				if err := l.add(r); err != nil {
					t.Fatal(err)
				}
			}
		}
		for _, v := range l.list() {
			got = append(got, fmt.Sprintf("%d %s %s", v.Revision, v.Change, v.Manager))
		}
		if text := strings.Join(got, ", "); text != c.want {
			t.Errorf("%s: %s, want %s", c.name, text, c.want)
		}
	}
}

// TestLimitOfVersions: with a limit only those are kept that may be among the newest.
func TestLimitOfVersions(t *testing.T) {
	t.Parallel()
	const changes = 10
	for _, c := range []struct {
		limit, keep int // keep is the most that are kept
		since       int64
		want        []int64
	}{
		{0, changes, 0, []int64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}},
		{0, changes, 8, []int64{8, 9, 10}},
		{3, 6, 0, []int64{8, 9, 10}},
		{4, 8, 9, []int64{9, 10}},
		{changes, changes, 0, []int64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}},
	} {
		var got []int64
		l := newVersionList(time.Unix(c.since, 0), c.limit)
		l.begin(journal.Span{Chain: &journal.Chain{Number: 1}})
		for revision := int64(1); revision <= changes; revision++ {
			r := write(revision, "", "a")
			r.time = time.Unix(revision, 0)
			if err := l.add(r); err != nil {
				t.Fatal(err)
			}
			if len(l.newest) > c.keep {
				t.Errorf("limit %d: %d versions are kept, want at most %d", c.limit, len(l.newest), c.keep)
			}
		}
		for _, v := range l.list() {
			got = append(got, v.Revision)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("limit %d, since %d: %v, want %v", c.limit, c.since, got, c.want)
		}
	}
}

// TestLifetime: the moment before a deletion.
func TestLifetime(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name        string
		records     []objectChange
		alive, end  int64
		dying, dead int64
	}{
		{"never", nil, 0, 0, 0, 0},
		{"exists", []objectChange{write(1, "new"), write(2, "")}, 2, 0, 0, 0},
		{"deleted", []objectChange{write(1, "new"), write(2, ""), removal(5)}, 2, 5, 0, 0},
		{"with finalizers", []objectChange{write(1, "new"), write(2, "").dying(), write(3, "").dying(), removal(5)}, 1, 2, 3, 5},
		{"twice", []objectChange{write(1, "new"), removal(2), write(7, "new"), removal(9)}, 7, 9, 0, 0},
		{"dying at the beginning", []objectChange{write(3, "").dying(), removal(5)}, 0, 0, 3, 5},
	} {
		l := lifetime{}
		for _, r := range c.records {
			if err := l.add(r); err != nil {
				t.Fatal(err)
			}
		}
		if want := (lifetime{c.alive, c.end, c.dying, c.dead}); l != want {
			t.Errorf("%s: %+v, want %+v", c.name, l, want)
		}
	}
}

// TestDecode: protobuf of built-in types and JSON of custom resources.
func TestDecode(t *testing.T) {
	t.Parallel()
	types, err := storedTypes()
	if err != nil {
		t.Fatal(err)
	}
	encoder := protobuf.NewSerializer(types, types)
	var binary strings.Builder
	secret := &corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "b", UID: "u"}, Data: map[string][]byte{"k": []byte("v")}}
	if err := encoder.Encode(secret, &binary); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"protobuf": binary.String(),
		"JSON":     `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a","namespace":"b","uid":"u"},"data":{"k":"dg=="}}`,
	} {
		object, err := decode([]byte(value))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		data, _, _ := unstructured.NestedString(object.Object, "data", "k")
		metadata, err := decodeMetadata([]byte(value))
		if err != nil || data != "dg==" || object.GetKind() != "Secret" || metadata.Kind != "Secret" || metadata.APIVersion != "v1" || metadata.UID != "u" || metadata.Namespace != "b" {
			t.Errorf("%s: %v and %+v, %v", name, object, metadata, err)
		}
	}
	// A definition is stored in a version that the API does not have.
	var stored strings.Builder
	definition := &apiextensionsv1beta1.CustomResourceDefinition{TypeMeta: metav1.TypeMeta{APIVersion: "apiextensions.k8s.io/v1beta1", Kind: "CustomResourceDefinition"}}
	definition.Spec.Scope = apiextensionsv1beta1.ClusterScoped
	if err := encoder.Encode(definition, &stored); err != nil {
		t.Fatal(err)
	}
	object, err := decode([]byte(stored.String()))
	if err != nil {
		t.Fatal(err)
	}
	metadata, err := decodeMetadata([]byte(stored.String()))
	if scope, _, _ := unstructured.NestedString(object.Object, "spec", "scope"); err != nil || scope != "Cluster" || object.GetAPIVersion() != "apiextensions.k8s.io/v1" || metadata.APIVersion != object.GetAPIVersion() {
		t.Errorf("the definition is %v, %+v, %v", object, metadata, err)
	}
	// A policy, too.
	stored.Reset()
	policy := &admissionregistrationv1beta1.MutatingAdmissionPolicy{TypeMeta: metav1.TypeMeta{APIVersion: "admissionregistration.k8s.io/v1beta1", Kind: "MutatingAdmissionPolicy"}}
	policy.Spec.ReinvocationPolicy = admissionregistrationv1.NeverReinvocationPolicy
	if err := encoder.Encode(policy, &stored); err != nil {
		t.Fatal(err)
	}
	if object, err = decode([]byte(stored.String())); err != nil {
		t.Fatal(err)
	}
	metadata, err = decodeMetadata([]byte(stored.String()))
	if again, _, _ := unstructured.NestedString(object.Object, "spec", "reinvocationPolicy"); err != nil || again != "Never" || object.GetAPIVersion() != "admissionregistration.k8s.io/v1" || metadata.APIVersion != object.GetAPIVersion() {
		t.Errorf("the policy is %v, %+v, %v", object, metadata, err)
	}
	for _, value := range []string{"", "x", "k8s\x00", "{", "[]"} {
		if object, err := decode([]byte(value)); err == nil {
			t.Errorf("%q is %v", value, object)
		}
		if metadata, err := decodeMetadata([]byte(value)); err == nil {
			t.Errorf("%q has %v", value, metadata)
		}
	}
}
