package crds

import (
	"bufio"
	"context"
	"fmt"
	"io"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/customresources"
)

// storedDefinition is a CRD of a list or watch of whole CRDs. It is decoded without
// schemas, and decoded whole when it is encoded for a client. It implements
// [runtime.CacheableObject].
type storedDefinition struct {
	apiextensions.CustomResourceDefinition
	codec *storedCodec // nil for a bookmark, which is encoded as it is
	data  []byte       // as stored
}

// DeepCopyObject implements [runtime.Object].
func (d *storedDefinition) DeepCopyObject() runtime.Object {
	return &storedDefinition{*d.DeepCopy(), d.codec, d.data}
}

// GetObject implements [runtime.CacheableObject].
func (d *storedDefinition) GetObject() runtime.Object { return d.DeepCopy() }

// CacheEncode implements [runtime.CacheableObject].
func (d *storedDefinition) CacheEncode(id runtime.Identifier, encode func(runtime.Object, io.Writer) error,
	w io.Writer) error {
	if d.codec == nil {
		return encode(&d.CustomResourceDefinition, w)
	}
	return d.codec.encodings.write(w, d.key(id), func(w io.Writer) error {
		whole, err := d.whole()
		if err != nil {
			return err
		}
		return encode(whole, w)
	})
}

func (d *storedDefinition) key(id runtime.Identifier) encodingKey {
	return encodingKey{id, d.UID, d.ResourceVersion}
}

// whole decodes the CRD with its schemas.
func (d *storedDefinition) whole() (*apiextensions.CustomResourceDefinition, error) {
	whole := &apiextensions.CustomResourceDefinition{}
	if _, _, err := d.codec.Codec.Decode(d.data, nil, whole); err != nil {
		return nil, fmt.Errorf("decode the stored CustomResourceDefinition %s: %w", d.Name, err)
	}
	whole.ResourceVersion = d.ResourceVersion // it is not in the data
	return whole, nil
}

// storedCodec decodes to a [storedDefinition].
type storedCodec struct {
	runtime.Codec
	encodings *encodings
}

// Decode implements [runtime.Decoder].
func (c *storedCodec) Decode(data []byte, defaults *schema.GroupVersionKind,
	into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	stored, ok := into.(*storedDefinition)
	if into == nil { // for a watch
		stored, ok = &storedDefinition{}, true
	}
	if !ok {
		return nil, nil, fmt.Errorf("decode a CustomResourceDefinition into %T: only %T is supported", into, stored)
	}
	_, kind, err := c.Codec.Decode(customresources.WithoutSchemas(data), defaults, &stored.CustomResourceDefinition)
	dropSchemas(&stored.CustomResourceDefinition) // of a CRD that is stored in JSON
	stored.codec, stored.data = c, data
	return stored, kind, err
}

// storedDefinitionList is a list of whole CRDs, of which only a page is in memory. It
// implements [runtime.CacheableObject].
type storedDefinitionList struct {
	metav1.TypeMeta
	metav1.ListMeta
	Items []storedDefinition
	// next reads the page that continues this one; nil after the last.
	next func(context.Context) (*storedDefinitionList, error)
	// ctx is that of the request.
	ctx context.Context
}

// DeepCopyObject implements [runtime.Object].
func (l *storedDefinitionList) DeepCopyObject() runtime.Object {
	out := *l
	out.ListMeta = *l.ListMeta.DeepCopy()
	out.Items = make([]storedDefinition, len(l.Items))
	for i := range l.Items {
		out.Items[i] = *l.Items[i].DeepCopyObject().(*storedDefinition)
	}
	return &out
}

// GetObject implements [runtime.CacheableObject]. The CRDs have no schemas.
func (l *storedDefinitionList) GetObject() runtime.Object {
	list := &apiextensions.CustomResourceDefinitionList{ListMeta: *l.ListMeta.DeepCopy()}
	for i := range l.Items {
		list.Items = append(list.Items, *l.Items[i].DeepCopy())
	}
	return list
}

// each calls visit with all CRDs, page by page.
func (l *storedDefinitionList) each(ctx context.Context, visit func(*storedDefinition) error) error {
	for page := l; ; {
		for i := range page.Items {
			if err := visit(&page.Items[i]); err != nil {
				return err
			}
		}
		if page.next == nil {
			return nil
		}
		var err error
		if page, err = page.next(ctx); err != nil {
			return err
		}
	}
}

// CacheEncode implements [runtime.CacheableObject]. Each CRD is encoded in a list of its
// own, from which its item is cut out: it then looks as in one list of all.
func (l *storedDefinitionList) CacheEncode(id runtime.Identifier, encode func(runtime.Object, io.Writer) error,
	w io.Writer) error {
	head, ok, err := customresources.ListHead(l.ListMeta, encode)
	if err != nil {
		return err
	}
	if !ok {
		return l.encodeWhole(encode, w)
	}
	response := &customresources.ListResponse{Writer: w}
	out := bufio.NewWriterSize(response, customresources.ListBuffer)
	if err := l.encodeItems(id, encode, out, head); err != nil {
		response.Abort()
		return err
	}
	return out.Flush()
}

// encodeItems writes the list to out, page by page. head precedes the items.
func (l *storedDefinitionList) encodeItems(id runtime.Identifier, encode func(runtime.Object, io.Writer) error,
	out *bufio.Writer, head []byte) error {
	itemHead, _, err := customresources.ListHead(metav1.ListMeta{}, encode)
	if err != nil {
		return err
	}
	if _, err := out.Write(head); err != nil {
		return err
	}
	var separator []byte
	err = l.each(l.ctx, func(d *storedDefinition) error {
		if _, err := out.Write(separator); err != nil {
			return err
		}
		separator = []byte(",")
		return d.codec.encodings.write(out, d.key("item of "+id), func(w io.Writer) error {
			whole, err := d.whole()
			if err != nil {
				return err
			}
			return customresources.EncodeItem(whole, encode, w, itemHead)
		})
	})
	if err != nil {
		return err
	}
	_, err = out.Write(customresources.ListEnd)
	return err
}

// encodeWhole encodes all CRDs at once, as upstream does.
func (l *storedDefinitionList) encodeWhole(encode func(runtime.Object, io.Writer) error, w io.Writer) error {
	list := &apiextensions.CustomResourceDefinitionList{ListMeta: l.ListMeta,
		Items: []apiextensions.CustomResourceDefinition{}}
	if err := l.each(l.ctx, func(d *storedDefinition) error {
		whole, err := d.whole()
		if err == nil {
			list.Items = append(list.Items, *whole)
		}
		return err
	}); err != nil {
		return err
	}
	return encode(list, w)
}
