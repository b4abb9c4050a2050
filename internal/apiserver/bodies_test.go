package apiserver

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/core"
)

const (
	reviewsPath    = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
	configMapsPath = "/api/v1/namespaces/a/configmaps"
)

func requestInfo(t *testing.T, r *http.Request) *request.RequestInfo {
	t.Helper()
	resolver := request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}
	info, err := resolver.NewRequestInfo(r)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

// sendBody sends a body through the limits, with 100 entries and 1 MiB, and returns the
// response. It fails if the handler gets another body.
func sendBody(t *testing.T, method, path, contentType, body string) *httptest.ResponseRecorder {
	t.Helper()
	limits := newTestLimits(testLimits)
	h := limits.bodies(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if got, err := io.ReadAll(r.Body); err != nil || string(got) != body {
			t.Errorf("the handler gets another body of %d bytes: %v", len(got), err)
		}
		w.WriteHeader(http.StatusAccepted)
	}))
	sent := strings.NewReader(body)
	r := httptest.NewRequestWithContext(asUser(t.Context(), "mallory"), method, path, sent)
	r.Header.Set("Content-Type", contentType)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r.WithContext(request.WithRequestInfo(r.Context(), requestInfo(t, r))))
	if len(limits.taken.used) > 0 {
		t.Error("the write counts after its end")
	}
	if sent.Len() > 0 && len(body) <= int(limits.bodySize) {
		t.Errorf("%d bytes are left: their client may get no answer", sent.Len())
	}
	return w
}

// large is half of largestReview, and with JSON around it more.
var large = strings.Repeat("x", 32<<10)

func jsonBody(t *testing.T, o any) string {
	t.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func protobufBody(t *testing.T, o runtime.Object) string {
	t.Helper()
	var text strings.Builder
	if err := protobuf.NewSerializer(legacyscheme.Scheme, legacyscheme.Scheme).Encode(o, &text); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

func entries(n int) map[string]string {
	m := map[string]string{}
	for i := range n {
		m[fmt.Sprint("a", i)] = large[:len(large)/100]
	}
	return m
}

func configMap(metadata metav1.ObjectMeta, data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metadata, Data: data}
}

func TestBodyLimits(t *testing.T) {
	t.Parallel()
	const post, patch, remove = http.MethodPost, http.MethodPatch, http.MethodDelete
	many, few := entries(101), entries(100)
	finalizers := make([]string, 101)
	for i := range finalizers {
		finalizers[i] = fmt.Sprint("example.com/", i, large[:len(large)/100])
	}
	list := jsonBody(t, map[string]any{"spec": map[string]any{"list": finalizers}})
	nested := func(levels int) string { return strings.Repeat(`{"f:a":`, levels) + "{}" + strings.Repeat("}", levels) }
	managed := func(levels int) metav1.ObjectMeta {
		fields := metav1.NewFieldsV1(" " + nested(levels))
		return metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "a", FieldsV1: fields}}}
	}
	deployment := &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Annotations: many}}}}
	const indented = "so deeply that indentation makes more than 32 times the size"
	for name, test := range map[string]struct {
		method, path, contentType, body string
		refused                         string
	}{
		"a review":                 {post, reviewsPath, "application/json", `{"spec":{}}`, ""},
		"a review of 33 kB":        {post, reviewsPath, "application/json", `{"a":"` + large + `"}`, ""},
		"a review above 64 KiB":    {post, reviewsPath, "application/json", `{"a":"` + large + large + `"}`, "limits.largestReview"},
		"a review in YAML":         {post, reviewsPath, "application/yaml", "a: {}", ""},
		"repeated YAML":            {post, reviewsPath, "application/yaml", "a: &a " + large[:1000] + "\nb: &b [" + strings.Repeat("*a,", 20) + "]\nc: [*b, *b, *b, *b]", "65536 bytes"},
		"recursive YAML":           {post, reviewsPath, "application/yaml", "a: &a [*a, *a]", ""},
		"broken YAML":              {post, configMapsPath, "application/yaml", "a: [", "read the body"},
		"merged YAML":              {post, configMapsPath, "application/yaml", "data:\n  <<: &a " + jsonBody(t, entries(60)) + "\n  <<: &b " + strings.ReplaceAll(jsonBody(t, entries(60)), `"a`, `"b`), "a map or a list has 122 entries"},
		"few entries":              {post, configMapsPath, "application/json", jsonBody(t, configMap(metav1.ObjectMeta{}, few)), ""},
		"many entries":             {post, configMapsPath, "application/json", jsonBody(t, configMap(metav1.ObjectMeta{}, many)), "limits.entries"},
		"many entries in YAML":     {post, configMapsPath, "application/yaml", "a: 1\nb: " + jsonBody(t, many), "limits.entries"},
		"many entries in protobuf": {post, configMapsPath, runtime.ContentTypeProtobuf, protobufBody(t, configMap(metav1.ObjectMeta{}, many)), "limits.entries"},
		"few entries in protobuf":  {post, configMapsPath, runtime.ContentTypeProtobuf, protobufBody(t, configMap(metav1.ObjectMeta{}, few)), ""},
		"labels":                   {post, configMapsPath, runtime.ContentTypeProtobuf, protobufBody(t, configMap(metav1.ObjectMeta{Labels: many}, nil)), "limits.entries"},
		"annotations of a patch":   {patch, configMapsPath + "/a", "application/merge-patch+json", jsonBody(t, configMap(metav1.ObjectMeta{Annotations: many}, nil)), "limits.entries"},
		"labels of an apply patch": {patch, configMapsPath + "/a", "application/apply-patch+yaml", jsonBody(t, configMap(metav1.ObjectMeta{Labels: many}, nil)), "limits.entries"},
		"finalizers":               {post, configMapsPath, "application/json", jsonBody(t, configMap(metav1.ObjectMeta{Finalizers: finalizers}, nil)), "limits.entries"},
		"an escaped field":         {post, configMapsPath, "application/json", strings.Replace(jsonBody(t, configMap(metav1.ObjectMeta{Finalizers: finalizers}, nil)), "metadata", `m\u0065tadata`, 1), "limits.entries"},
		"finalizers by an alias":   {post, configMapsPath, "application/yaml", "a: &a " + jsonBody(t, finalizers) + "\nmetadata: {finalizers: *a}", "limits.entries"},
		"a long list":              {post, configMapsPath, "application/json", list, "limits.entries"},
		"a shorter list":           {patch, configMapsPath, "application/merge-patch+json", jsonBody(t, finalizers[:60]), ""},
		"a JSON patch":             {patch, configMapsPath, "application/json-patch+json", jsonBody(t, finalizers[:50]), ""},
		"a longer JSON patch":      {patch, configMapsPath, "application/json-patch+json", "[" + strings.Repeat("1,", 50) + "1]", "limits.patchEntries"},
		"a strategic patch":        {patch, configMapsPath, "application/strategic-merge-patch+json", jsonBody(t, configMap(metav1.ObjectMeta{Finalizers: finalizers[:60]}, nil)), "limits.patchEntries"},
		"its maps":                 {patch, configMapsPath, "application/strategic-merge-patch+json", jsonBody(t, configMap(metav1.ObjectMeta{}, few)), ""},
		"options of a deletion":    {remove, configMapsPath + "/a", "application/json", `{"propagationPolicy":"Background"}`, ""},
		"no options":               {remove, configMapsPath, "", "", ""},
		"large options":            {remove, configMapsPath + "/a", "application/yaml", strings.Repeat("a: b\n", 3<<20/5), "65536 bytes"},
		"of a collection":          {remove, configMapsPath, "application/yaml", strings.Repeat("a: b\n", 3<<20/5), "65536 bytes"},
		"entries of options":       {remove, configMapsPath, "application/yaml", "dryRun: [" + strings.Repeat("a,", 101) + "]", "limits.entries"},
		"nested maps":              {post, configMapsPath, "application/json", nested(300), indented},
		"nested lists":             {post, configMapsPath, "application/json", strings.Repeat("[", 9000) + strings.Repeat("]", 9000), indented},
		"nested in a patch":        {patch, configMapsPath + "/a", "application/merge-patch+json", nested(300), indented},
		"nested in YAML":           {post, configMapsPath, "application/yaml", strings.ReplaceAll(nested(300), `"`, "'"), indented},
		"nested aliases":           {post, configMapsPath, "application/yaml", "a: &a " + nested(100) + "\nb: &b " + strings.Replace(nested(100), "{}", "*a", 1) + "\nc: " + strings.Replace(nested(100), "{}", "*b", 1), indented},
		"nested in protobuf":       {post, configMapsPath, runtime.ContentTypeProtobuf, protobufBody(t, configMap(managed(9000), nil)), indented},
		"few levels":               {post, configMapsPath, "application/json", nested(60), ""},
		"few levels in YAML":       {post, configMapsPath, "application/yaml", strings.ReplaceAll(nested(60), `"`, "'"), ""},
		"few levels in protobuf":   {post, configMapsPath, runtime.ContentTypeProtobuf, protobufBody(t, configMap(managed(60), nil)), ""},
		"nested as text":           {post, configMapsPath, "application/json", jsonBody(t, configMap(metav1.ObjectMeta{}, map[string]string{"a": nested(9000)})), ""},
		"of a template, protobuf":  {post, configMapsPath, runtime.ContentTypeProtobuf, protobufBody(t, deployment), "limits.entries"},
		"above the size":           {post, configMapsPath, "application/json", strings.Repeat(" ", 1<<20+1), "1048576 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, parameters := range []string{"", ";=", "; a=b; a=c", ";;", "; charset"} { // upstream's patches take any
				w := sendBody(t, test.method, test.path, test.contentType+parameters, test.body)
				switch {
				case test.refused == "" && w.Code != http.StatusAccepted:
					t.Errorf("with %q: answered %d: %s", parameters, w.Code, w.Body)
				case test.refused != "" && (w.Code < 400 || !strings.Contains(w.Body.String(), test.refused)):
					t.Errorf("with %q: answered %d without %q: %s", parameters, w.Code, test.refused, w.Body)
				}
			}
		})
	}
}

// TestWritesCountUntilTheirEnd: a write whose client has gone counts for its user until it is
// done; further writes of that user wait, and get 429.
func TestWritesCountUntilTheirEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := newTestLimits(testLimits)
		limits.bodySize = 4 << 20
		began := make(chan bool, 10)
		done := make(chan bool)
		h := limits.bodies(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			began <- true
			select {
			case <-r.Context().Done():
			case <-done:
			}
		}))
		send := func(ctx context.Context, name string, size int) int {
			r := httptest.NewRequestWithContext(asUser(ctx, name), http.MethodPost, configMapsPath, strings.NewReader(`"`+strings.Repeat(" ", size)+`"`))
			info := &request.RequestInfo{IsResourceRequest: true, Verb: "create", Resource: "configmaps"}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r.WithContext(request.WithRequestInfo(r.Context(), info)))
			return w.Code
		}
		var clients sync.WaitGroup
		gone, leave := context.WithCancel(t.Context())
		for range 2 {
			clients.Go(func() { send(gone, "mallory", 2<<20-2) })
		}
		synctest.Wait()
		leave()
		if code := send(t.Context(), "mallory", 10); code != http.StatusTooManyRequests {
			t.Errorf("a third write of the user is answered with %d", code)
		}
		clients.Go(func() { send(t.Context(), "alice", 10) })
		clients.Go(func() { send(t.Context(), user.KubeControllerManager, 10) })
		synctest.Wait()
		if n := len(began); n != 4 {
			t.Errorf("%d writes have begun, want 4", n)
		}
		close(done)
		clients.Wait()
		if code := send(t.Context(), "mallory", 10); code != http.StatusOK {
			t.Errorf("a write after the others is answered with %d", code)
		}
	})
}

// TestGrowthLimit: a patch may not make an object's maps grow above the bound, however small
// its body is; an object above it may become smaller.
func TestGrowthLimit(t *testing.T) {
	t.Parallel()
	internal := func(metadata metav1.ObjectMeta, data map[string]string) runtime.Object {
		return &core.ConfigMap{ObjectMeta: metadata, Data: data}
	}
	finalizers := strings.Split(strings.Repeat("example.com/a ", 101), " ")
	custom := func(entries int) runtime.Object {
		spec := map[string]any{}
		for i := range entries {
			spec[fmt.Sprint(i)] = "v"
		}
		return &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	}
	deep := func(levels int) runtime.Object {
		object := map[string]any{}
		for range levels {
			object = map[string]any{"a": object}
		}
		return &unstructured.Unstructured{Object: object}
	}
	for name, test := range map[string]struct {
		verb          string
		before, after runtime.Object
		refused       bool
	}{
		"few entries":             {"patch", internal(metav1.ObjectMeta{}, entries(99)), internal(metav1.ObjectMeta{}, entries(100)), false},
		"many entries":            {"patch", internal(metav1.ObjectMeta{}, entries(100)), internal(metav1.ObjectMeta{}, entries(101)), true},
		"labels":                  {"patch", internal(metav1.ObjectMeta{}, nil), internal(metav1.ObjectMeta{Labels: entries(101)}, nil), true},
		"finalizers":              {"patch", internal(metav1.ObjectMeta{}, nil), internal(metav1.ObjectMeta{Finalizers: finalizers}, nil), true},
		"a created object":        {"patch", nil, internal(metav1.ObjectMeta{}, entries(101)), true},
		"a custom resource":       {"patch", custom(1), custom(101), true},
		"nested maps":             {"patch", deep(1), deep(300), true},
		"less nested than before": {"patch", deep(301), deep(300), false},
		"less than before":        {"patch", custom(103), custom(102), false},
		"an update, by its body":  {"update", custom(1), custom(101), false},
	} {
		ctx := request.WithRequestInfo(t.Context(), &request.RequestInfo{IsResourceRequest: true, Verb: test.verb})
		attributes := admission.NewAttributesRecord(test.after, test.before, schema.GroupVersionKind{}, "a", "a", schema.GroupVersionResource{}, "", admission.Update, nil, false, nil)
		err := growthLimit{100}.Validate(ctx, attributes, nil)
		if apierrors.IsRequestEntityTooLargeError(err) != test.refused || err != nil && !test.refused {
			t.Errorf("%s: %v", name, err)
		}
	}
}
