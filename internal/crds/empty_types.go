package crds

import (
	"errors"
	"net/http"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/request"

	"kube-hyper-mini.io/kube-hyper-mini/internal/storage"
	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/customresources"
)

// emptyTypes answers lists and watches of types without objects, and requests for one
// object, so that their serving machinery is not built. Upstream's handler answers unusual
// requests. It is safe for concurrent use.
type emptyTypes struct {
	front      *front
	population *storage.Population
	// minTimeout is the shortest time until the end of a watch whose request has no
	// timeout.
	minTimeout time.Duration
	// bookmarkInterval is the interval of a watch's bookmarks.
	bookmarkInterval time.Duration
	changes          definitionChanges
}

// serve answers the request if it is a plain one of a type without objects. It returns
// false if upstream's handler must answer.
func (e *emptyTypes) serve(w http.ResponseWriter, r *http.Request, info *request.RequestInfo,
	crd *apiextensionsv1.CustomResourceDefinition) bool {
	p := customresources.NewPlainRequest(r, info, crd)
	if p == nil {
		return e.serveAbsent(w, r, info, crd)
	}
	since := storage.Current
	version, err := storageVersioner.ParseResourceVersion(p.Options.ResourceVersion)
	if err != nil {
		return false
	}
	fromNow := p.Options.SendInitialEvents != nil && *p.Options.SendInitialEvents || version == 0
	if p.Options.Watch && !fromNow {
		since = int64(version)
	}
	holding, cancel := holdContext(r.Context())
	defer cancel()
	empty, revision, err := e.population.HoldEmpty(holding, p.Resource(), since)
	switch {
	case errors.Is(err, storage.ErrUnknownHistory) && !e.front.isResident(crd.Name):
		// A watch cache that is made now does not have that history either.
		p.RefuseOld(w, r, revision)
		return true
	case err != nil:
		return false
	case uint64(revision) < version: // the response must not be older
		empty.Release()
		return false
	case p.Options.Watch:
		e.watch(w, r, p, empty, revision)
		return true
	}
	empty.Release()
	return e.list(w, r, p, revision)
}

// serveAbsent answers a request for one object of a type without objects with 404. A type
// in memory needs no answer from here: upstream's handler reads the object at once.
func (e *emptyTypes) serveAbsent(w http.ResponseWriter, r *http.Request, info *request.RequestInfo,
	crd *apiextensionsv1.CustomResourceDefinition) bool {
	if e.front.isResident(crd.Name) || !customresources.NamesObject(r, info, crd) {
		return false
	}
	holding, cancel := holdContext(r.Context())
	defer cancel()
	resource := schema.GroupResource{Group: info.APIGroup, Resource: info.Resource}
	empty, _, err := e.population.HoldEmpty(holding, resource, storage.Current)
	if err != nil {
		return false
	}
	empty.Release()
	customresources.WriteNotFound(w, r, info)
	return true
}

// list answers with no objects as of the revision. It returns false if it does not
// answer: upstream's handler answers with the error.
func (e *emptyTypes) list(w http.ResponseWriter, r *http.Request, p *customresources.PlainRequest,
	revision int64) bool {
	if p.Table == nil {
		p.WriteList(w, r, revision)
		return true
	}
	crd, err := e.front.definitions.get(r.Context(), p.CRD.Name) // the columns are in the whole CRD
	return err == nil && p.WriteTable(w, r, revision, crd) == nil
}
