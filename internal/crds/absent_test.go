package crds

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestAbsentObjects: a request for an object of a type without objects gets the response
// that it gets of a type with objects, and builds nothing.
func TestAbsentObjects(t *testing.T) {
	s := newTestServer(t)
	s.install(t)
	url := frontURL(t, s.front) + "/apis/example.com/v2/namespaces/default/widgets/absent"
	tests := []struct{ method, suffix, contentType, accept, body string }{
		{"GET", "", "", "application/json", ""},
		{"GET", "?resourceVersion=0", "", "application/yaml", ""},
		{"GET", "", "", "application/json;as=Table;v=v1;g=meta.k8s.io,application/json", ""},
		{"GET", "", "", "application/vnd.kubernetes.protobuf,application/json", ""},
		{"GET", "/status", "", "", ""},
		{"GET", "/scale", "", "", ""},
		{"GET", "/other", "", "", ""},
		{"DELETE", "", "application/json", "application/json", `{"propagationPolicy":"Background"}`},
		{"DELETE", "?dryRun=All", "", "application/json", ""},
		{"PATCH", "?fieldManager=test", "application/merge-patch+json", "application/json", "{}"},
		{"PATCH", "", "application/json-patch+json; charset=utf-8", "application/json", "[]"},
		{"PATCH", "/status", "application/merge-patch+json", "application/json", "{}"},
		{"PATCH", "/scale", "application/merge-patch+json", "application/json", "{}"},
	}
	send := func(i int) string {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), tests[i].method, url+tests[i].suffix, strings.NewReader(tests[i].body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Accept", tests[i].accept)
		request.Header.Set("Content-Type", tests[i].contentType)
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("%d %s %s", response.StatusCode, response.Header.Get("Content-Type"), body)
	}
	answers := make([]string, len(tests))
	for i := range tests {
		answers[i] = send(i)
	}
	s.expectCold(t)
	s.create(t, "one")
	for i, test := range tests {
		want := send(i)
		if !strings.HasPrefix(want, "404 ") || answers[i] != want {
			t.Errorf("%+v: got\n%s\nwant\n%s", test, answers[i], want)
		}
	}
}

// TestReadsAfterCreations: a read that begins after a creation was answered gets the object,
// whether or not its type is in memory.
func TestReadsAfterCreations(t *testing.T) {
	s := newTestServer(t)
	s.install(t)
	for i := range 20 {
		name := fmt.Sprint("w", i)
		s.create(t, name)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		for s.front.release(time.Now().Add(time.Hour)) == 0 && ctx.Err() == nil {
			time.Sleep(time.Millisecond)
		}
		cancel()
		if _, err := s.objects.Namespace("default").Get(t.Context(), name, metav1.GetOptions{}); err != nil {
			t.Fatal(err)
		}
		s.delete(t, name)
	}
}
