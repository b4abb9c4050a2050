package customresources

import (
	"bytes"
	"fmt"
	"io"
	"net/http"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/apiserver"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/endpoints/handlers"
	"k8s.io/apiserver/pkg/endpoints/handlers/negotiation"
	"k8s.io/apiserver/pkg/registry/rest"
)

// Upstream fact: how CRDs are listed and encoded together
//
// Mirrors: k8s.io/apiextensions-apiserver/pkg/apiserver.completedConfig.New
//   k8s.io/apiserver/pkg/endpoints/handlers.ListResource
//   k8s.io/apiserver/pkg/endpoints/handlers.RequestScope.AllowsMediaTypeTransform
//   k8s.io/apimachinery/pkg/runtime.CacheableObject
//   k8s.io/apimachinery/pkg/runtime/serializer/versioning.codec.encode
//   k8s.io/apiserver/pkg/endpoints/handlers.watchEncoder.Encode
//   k8s.io/apiserver/pkg/endpoints/handlers/responsewriters.deferredResponseWriter.Write
//   k8s.io/apiserver/pkg/endpoints/handlers/responsewriters.SerializeObject
//   k8s.io/apiserver/pkg/server/filters.WithPanicRecovery
//   k8s.io/apiserver/pkg/storage/etcd3.watcher.Watch
// Why: upstream holds all decoded CRDs of a list twice, in the internal version and in that
//   of the answer. Tables and metadata need no schemas, and the handler does not tell the
//   storage what it has negotiated.
// Gain: a list of 2,452 CRDs takes the memory of a page of them; `kubectl get crds` and the
//   garbage collector read CRDs without schemas (bench, crds).
// Breaks: lists and watches of CRDs fail, lack the schemas or take the memory of all CRDs.
//   Tests: TestListsOfWholeDefinitions, TestListThatFails, TestDefinitionsMediaType,
//   TestMetadataOfDefinitions, TestWatchesOfWholeDefinitions.

// definitionsScope has what the negotiation of lists and watches of CRDs reads. All other
// fields are for other requests.
var definitionsScope = &handlers.RequestScope{TableConvertor: rest.NewDefaultTableConvertor(
	apiextensions.Resource("customresourcedefinitions"))}

// DefinitionsMediaType returns the content of the answer to a list or a watch of CRDs, with
// the error with which the handler of CRDs refuses the request.
func DefinitionsMediaType(r *http.Request) (negotiation.MediaTypeOptions, error) {
	media, _, err := negotiation.NegotiateOutputMediaType(r, apiserver.Codecs, definitionsScope)
	return media, err
}

// ListBuffer is the size of writes of a list, in bytes. The API server compresses a
// response whose first write is larger than 128 kB.
const ListBuffer = 256 << 10

// ListEnd is the end of a list in JSON.
var ListEnd = []byte("]}\n")

// itemsBegin precedes the items of a list.
var itemsBegin = []byte(`"items":[`)

// ListHead is what precedes the items of a list. It reports false if the encoder does
// not write compact JSON.
func ListHead(meta metav1.ListMeta, encode func(runtime.Object, io.Writer) error) (head []byte, ok bool, err error) {
	var empty bytes.Buffer
	if err := encode(&apiextensions.CustomResourceDefinitionList{ListMeta: meta,
		Items: []apiextensions.CustomResourceDefinition{}}, &empty); err != nil {
		return nil, false, err
	}
	head, ok = bytes.CutSuffix(empty.Bytes(), ListEnd)
	return head, ok && bytes.HasPrefix(head, []byte("{")) && bytes.HasSuffix(head, itemsBegin), nil
}

// EncodeItem encodes the CRD as an item of a list that begins with head.
func EncodeItem(crd *apiextensions.CustomResourceDefinition, encode func(runtime.Object, io.Writer) error,
	w io.Writer, head []byte) error {
	var list bytes.Buffer
	if err := encode(&apiextensions.CustomResourceDefinitionList{Items: []apiextensions.CustomResourceDefinition{*crd}},
		&list); err != nil {
		return err
	}
	item, begins := bytes.CutPrefix(list.Bytes(), head)
	item, ends := bytes.CutSuffix(item, ListEnd)
	if !begins || !ends {
		return fmt.Errorf("encode CustomResourceDefinition %s in a list: the encoder writes something else around it "+
			"than in an empty list", crd.Name)
	}
	_, err := w.Write(item)
	return err
}

// ListResponse is the response to a list; it records whether it has begun.
type ListResponse struct {
	io.Writer
	begun, failed bool
}

// Write implements [io.Writer].
func (b *ListResponse) Write(p []byte) (int, error) {
	b.begun = true
	n, err := b.Writer.Write(p)
	b.failed = b.failed || err != nil
	return n, err
}

// Abort ends the connection, or the stream of HTTP/2, of a response that has begun:
// upstream would complete it with a Status after the items, as a success. The panic is
// how [net/http] does that; upstream's timeout filter uses it, too.
func (b *ListResponse) Abort() {
	if b.begun && !b.failed {
		panic(http.ErrAbortHandler)
	}
}
