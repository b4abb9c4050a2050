package apiservices

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"reflect"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
	v1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	listers "k8s.io/kube-aggregator/pkg/client/listers/apiregistration/v1"
)

// groupsOf has versions of CRDs, and APIServices that the aggregator knows.
func groupsOf(t *testing.T, crds []schema.GroupVersion, known ...*v1.APIService) *groups {
	t.Helper()
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	for _, service := range known {
		if err := indexer.Add(service); err != nil {
			t.Fatal(err)
		}
	}
	return &groups{source: newVersions(crds...), known: listers.NewAPIServiceLister(indexer)}
}

// described is a group as a client sees it: the preferred version, and all of them.
func described(group metav1.APIGroup) []string {
	names := []string{group.PreferredVersion.GroupVersion}
	for _, version := range group.Versions {
		names = append(names, version.GroupVersion)
	}
	return names
}

func TestListOfGroups(t *testing.T) {
	core := &v1.APIService{ObjectMeta: metav1.ObjectMeta{Name: "v1."}, Spec: v1.APIServiceSpec{Version: "v1", GroupPriorityMinimum: 18000}}
	preferred := remote(widgetsV2)
	preferred.Spec.VersionPriority = 200
	for name, c := range map[string]struct {
		groups *groups
		want   [][]string
	}{
		"none": {groupsOf(t, nil, core), nil},
		"CRDs": {groupsOf(t, []schema.GroupVersion{widgetsV1, gadgetsV1, widgetsV2}), [][]string{
			{"gadgets.example.com/v1", "gadgets.example.com/v1"}, {"widgets.example.com/v2", "widgets.example.com/v2", "widgets.example.com/v1"},
		}},
		"both": {groupsOf(t, []schema.GroupVersion{widgetsV1}, core, preferred), [][]string{
			{"widgets.example.com/v2", "widgets.example.com/v2", "widgets.example.com/v1"},
		}},
		"taken over": {groupsOf(t, []schema.GroupVersion{widgetsV1}, remote(widgetsV1)), [][]string{
			{"widgets.example.com/v1", "widgets.example.com/v1"},
		}},
	} {
		w := httptest.NewRecorder()
		c.groups.list(w, httptest.NewRequest(http.MethodGet, "/apis", nil))
		var list metav1.APIGroupList
		if err := json.Unmarshal(w.Body.Bytes(), &list); err != nil || w.Code != http.StatusOK || list.Kind != "APIGroupList" {
			t.Errorf("%s: %d, %v: %s", name, w.Code, err, w.Body)
		}
		var got [][]string
		for i, group := range list.Groups {
			if i == 0 && group.Name == v1.GroupName {
				continue
			}
			got = append(got, described(group))
		}
		if len(got) == len(list.Groups) {
			t.Errorf("%s: the first group is not %s", name, v1.GroupName)
		}
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: the groups are %v, want %v", name, got, c.want)
		}
	}
}
