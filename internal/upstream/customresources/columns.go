package customresources

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresource/tableconvertor"
	internalversionscheme "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/handlers/negotiation"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/util/apihelpers"
)

// Upstream fact: the columns of a custom resource
//
// Mirrors: k8s.io/apiextensions-apiserver/pkg/apiserver.getColumnsForVersion
//   k8s.io/apiextensions-apiserver/pkg/apiserver.serveDefaultColumnsIfEmpty
//   k8s.io/apiserver/pkg/endpoints/handlers.RequestScope.AllowsMediaTypeTransform
//   k8s.io/apiserver/pkg/endpoints/handlers.asTable
// Why: upstream's handler builds the serving machinery of a type before it answers
//   kubectl get.
// Gain: kubectl get and kubectl get -w of a type without objects build nothing. Of 614
//   such types, tables take 1.3 s of processor time instead of 9.6 s, 50 MB instead of
//   420 MB, and no goroutine instead of 8,500 (trial).
// Breaks: they show other columns for a type without objects than for one with
//   objects. Tests: TestTablesOfEmptyTypes.

// defaultColumn is that of a version without columns of its own, besides the name.
var defaultColumn = apiextensionsv1.CustomResourceColumnDefinition{
	Name: "Age", Type: "date", JSONPath: ".metadata.creationTimestamp",
	Description: metav1.ObjectMeta{}.SwaggerDoc()["creationTimestamp"],
}

// tableOf returns whether the client wants a table or plain objects. ok means neither
// conversion to metadata nor another encoding is wanted.
func tableOf(r *http.Request, verb string) (table, ok bool) {
	accept := r.Header.Get("Accept")
	if r.Header.Get("Upgrade") != "" || strings.Contains(accept, "as=PartialObjectMetadata") ||
		strings.Contains(accept, "cbor") {
		return false, false
	}
	mediaType, ok := negotiation.NegotiateMediaTypeOptions(accept, plainSerializer.SupportedMediaTypes(),
		withTables{negotiation.DefaultEndpointRestrictions})
	isJSON := mediaType.Accepted.MediaType == runtime.ContentTypeJSON
	switch target := mediaType.Convert; {
	case !ok:
		return false, false
	case target == nil:
		return false, verb == "list" || isJSON
	}
	return true, isJSON && mediaType.Convert.GroupVersion() == metav1.SchemeGroupVersion
}

// withTables are the restrictions of upstream's handler, as far as tables go.
type withTables struct {
	negotiation.EndpointRestrictions
}

// AllowsMediaTypeTransform implements [negotiation.EndpointRestrictions].
func (w withTables) AllowsMediaTypeTransform(kind, subKind string, target *schema.GroupVersionKind) bool {
	if target != nil && target.Kind == "Table" {
		return target.Group == metav1.GroupName && kind == "application" && (subKind == "json" || subKind == "yaml")
	}
	return w.EndpointRestrictions.AllowsMediaTypeTransform(kind, subKind, target)
}

// tableOptions returns the options for a table; nil if they are wrong.
func tableOptions(r *http.Request) *metav1.TableOptions {
	options := &metav1.TableOptions{}
	if err := internalversionscheme.ParameterCodec.DecodeParameters(r.URL.Query(),
		metav1.SchemeGroupVersion, options); err != nil {
		return nil
	}
	if errs := validation.ValidateTableOptions(options); len(errs) > 0 {
		return nil
	}
	return options
}

// WriteTable answers a list with a table without rows as of the revision. crd is the whole
// CRD. After an error nothing was written.
func (p *PlainRequest) WriteTable(w http.ResponseWriter, r *http.Request, revision int64,
	crd *apiextensionsv1.CustomResourceDefinition) error {
	table, err := p.asTable(r.Context(), crd, p.emptyList(revision))
	if err != nil {
		return err
	}
	p.instrument(w, r, func(w http.ResponseWriter, r *http.Request) {
		responsewriters.WriteObjectNegotiated(apihelpers.GetMetaInternalVersionCodecs(),
			withTables{negotiation.DefaultEndpointRestrictions},
			metav1.SchemeGroupVersion, w, r, http.StatusOK, table, false)
	})
	return nil
}

// asTable converts a list without objects.
func (p *PlainRequest) asTable(ctx context.Context, crd *apiextensionsv1.CustomResourceDefinition,
	list runtime.Object) (*metav1.Table, error) {
	for _, version := range crd.Spec.Versions {
		if version.Name != p.Info.APIVersion {
			continue
		}
		columns := version.AdditionalPrinterColumns
		if len(columns) == 0 {
			columns = []apiextensionsv1.CustomResourceColumnDefinition{defaultColumn}
		}
		// With an error comes a convertor without these columns, which is what is served.
		convertor, _ := tableconvertor.New(columns)
		table, err := convertor.ConvertToTable(ctx, list, p.Table)
		if err != nil {
			return nil, fmt.Errorf("convert a list of %s to a table: %w", crd.Name, err)
		}
		return table, nil
	}
	return nil, fmt.Errorf("%s has no version %s", crd.Name, p.Info.APIVersion)
}
