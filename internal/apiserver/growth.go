package apiserver

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// growthLimit refuses patches after which an object has more than most entries in a map or a list:
// limits.bodies sees the body of the patch only, and each further patch would take
// processor time with the square of the entries. 0 is without a bound.
type growthLimit struct {
	most       int
	requesters requesters
}

// Handles implements [admission.Interface].
func (g growthLimit) Handles(admission.Operation) bool { return g.most > 0 }

// Validate implements [admission.ValidationInterface]. An object that has had more
// entries before may become smaller.
func (g growthLimit) Validate(ctx context.Context, attributes admission.Attributes,
	_ admission.ObjectInterfaces) error {
	info, known := request.RequestInfoFrom(ctx)
	if !known || info.Verb != "patch" || attributes.GetObject() == nil || g.requesters.name(ctx) == controllerRequesters {
		return nil
	}
	entries, err := entriesOf(attributes.GetObject())
	if err != nil || entries <= g.most {
		return err
	}
	before, err := entriesOf(attributes.GetOldObject())
	if err != nil || entries <= before {
		return err
	}
	return tooManyEntries(entries, g.most)
}

// entriesOf returns the number of entries of the map or the list of an object that has the
// most; 0 for nil.
func entriesOf(object runtime.Object) (int, error) {
	if object == nil {
		return 0, nil
	}
	text, err := json.Marshal(object)
	if err != nil {
		return 0, fmt.Errorf("count the entries of the object: %w", err)
	}
	maps, lists := jsonEntries(text)
	return max(maps, lists), nil
}
