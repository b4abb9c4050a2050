package crds

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// kubectlAccept is what kubectl get accepts.
const kubectlAccept = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"

// getTable sends a request as kubectl get does.
func getTable(t *testing.T, url, query string) *json.Decoder {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/apis/example.com/v2/namespaces/default/widgets?"+query, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Accept", kubectlAccept)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = response.Body.Close() // it was only read
	})
	if response.StatusCode != http.StatusOK || response.Header.Get("Content-Type") != "application/json" {
		t.Fatalf("%s of %s", response.Status, response.Header.Get("Content-Type"))
	}
	return json.NewDecoder(response.Body)
}

func decodeTable(t *testing.T, from *json.Decoder, into any) {
	t.Helper()
	if err := from.Decode(into); err != nil {
		t.Fatal(err)
	}
}

func expectTable(t *testing.T, table *metav1.Table, rows int) {
	t.Helper()
	if table.Kind != "Table" || table.APIVersion != "meta.k8s.io/v1" || table.ResourceVersion == "" || table.Rows == nil || len(table.Rows) != rows ||
		len(table.ColumnDefinitions) != 2 || table.ColumnDefinitions[0].Name != "Name" || table.ColumnDefinitions[1].Name != "Size" {
		t.Errorf("got %+v, want %d rows", table, rows)
	}
}

// TestTablesOfEmptyTypes: kubectl get of a type without objects builds nothing, and
// kubectl get -w waits for the first one. A table has the same columns with and without
// objects.
func TestTablesOfEmptyTypes(t *testing.T) {
	t.Parallel()
	s := newTestServer(t)
	s.install(t)
	url := frontURL(t, s.front)
	var list, after metav1.Table
	decodeTable(t, getTable(t, url, "limit=500"), &list)
	expectTable(t, &list, 0)
	watch := getTable(t, url, "watch=true&resourceVersion="+list.ResourceVersion)
	s.expectCold(t)
	s.create(t, "one")
	var event struct {
		Type   string
		Object metav1.Table
	}
	decodeTable(t, watch, &event)
	expectTable(t, &event.Object, 1)
	if event.Type != "ADDED" || event.Object.Rows[0].Cells[0] != "one" {
		t.Errorf("got %+v", event)
	}
	decodeTable(t, getTable(t, url, ""), &after)
	expectTable(t, &after, 1)
}
