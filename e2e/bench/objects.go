package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

// object is an API object as the benchmark sends it.
type object = map[string]any

// kind is a type of objects that the benchmark makes.
type kind struct {
	path func(namespace string) string
	// make returns the JSON of an object with a payload of so many bytes.
	make func(name string, owners []object, payload int) []byte
}

var (
	configMaps = kind{configMapsPath, func(name string, owners []object, payload int) []byte { return configMap(name, "", owners, payload) }}
	secrets    = kind{
		func(namespace string) string { return "/api/v1/namespaces/" + namespace + "/secrets" },
		func(name string, owners []object, payload int) []byte {
			return encode(object{"apiVersion": "v1", "kind": "Secret", "metadata": metadata(name, owners), "stringData": object{"value": text(payload)}})
		},
	}
	widgets = widgetsOf("widgets")
)

const (
	group      = "bench.kube-hyper-mini.io"
	concurrent = 16 // clients that prepare what is then measured
)

func configMapsPath(namespace string) string {
	return "/api/v1/namespaces/" + namespace + "/configmaps"
}

func configMap(name, prefix string, owners []object, payload int) []byte {
	meta := metadata(name, owners)
	if prefix != "" {
		meta["generateName"] = prefix
	}
	return encode(object{"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": object{"value": text(payload)}})
}

// widgetsOf is the custom resource whose CRD crd(plural) is.
func widgetsOf(plural string) kind {
	return kind{
		func(namespace string) string { return "/apis/" + group + "/v1/namespaces/" + namespace + "/" + plural },
		func(name string, owners []object, payload int) []byte {
			return encode(object{
				"apiVersion": group + "/v1", "kind": kindName(plural), "metadata": metadata(name, owners),
				"spec": object{"value": text(payload), "replicas": 3},
			})
		},
	}
}

// kindName is the Kind of a plural of ours.
func kindName(plural string) string {
	return strings.ToUpper(plural[:1]) + strings.TrimSuffix(plural[1:], "s")
}

// crd is a CustomResourceDefinition with a small schema.
func crd(plural string) []byte {
	stringType := object{"type": "string"}
	return encode(object{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": object{"name": plural + "." + group},
		"spec": object{
			"group": group, "scope": "Namespaced",
			"names": object{"plural": plural, "singular": strings.TrimSuffix(plural, "s"), "kind": kindName(plural), "listKind": kindName(plural) + "List"},
			"versions": []object{{
				"name": "v1", "served": true, "storage": true, "subresources": object{"status": object{}},
				"schema": object{"openAPIV3Schema": object{"type": "object", "properties": object{
					"spec": object{"type": "object", "properties": object{
						"value": stringType, "replicas": object{"type": "integer", "minimum": 0},
						"labels": object{"type": "object", "additionalProperties": stringType},
					}},
					"status": object{"type": "object", "properties": object{"phase": stringType}},
				}}},
			}},
		},
	})
}

func metadata(name string, owners []object) object {
	meta := object{}
	if name != "" {
		meta["name"] = name
	}
	if owners != nil {
		meta["ownerReferences"] = owners
	}
	return meta
}

// text is a payload that does not compress to nothing.
func text(size int) string {
	const alphabet = "kube-hyper-mini measures itself. "
	return strings.Repeat(alphabet, size/len(alphabet)+1)[:size]
}

func encode(o object) []byte {
	data, err := json.Marshal(o)
	if err != nil {
		panic(err) // only strings, numbers and maps of them go in
	}
	return data
}

// ownerReference points to an object that the API server has just returned.
func ownerReference(created []byte, kind string, block bool) (object, error) {
	var owner struct {
		Metadata struct{ Name, UID, ResourceVersion string }
	}
	if err := json.Unmarshal(created, &owner); err != nil {
		return nil, fmt.Errorf("read the owner: %w", err)
	}
	return object{"apiVersion": "v1", "kind": kind, "name": owner.Metadata.Name, "uid": owner.Metadata.UID, "blockOwnerDeletion": block}, nil
}

// resourceVersion of an object or a list.
func resourceVersion(data []byte) (string, error) {
	var o struct {
		Metadata struct{ ResourceVersion string }
	}
	if err := json.Unmarshal(data, &o); err != nil {
		return "", fmt.Errorf("read a resource version: %w", err)
	}
	return o.Metadata.ResourceVersion, nil
}

// fixture is a cluster with a client, as most figures want it.
type fixture struct {
	*cluster
	*api
}

// withFixture is started with a client.
func (b *bench) withFixture(ctx context.Context, s side, use func(fixture) error) error {
	return b.started(ctx, s, func(c *cluster) error {
		client, err := newAPI(c.config)
		if err != nil {
			return err
		}
		defer client.close()
		return use(fixture{c, client})
	})
}

// namespace makes a namespace and waits for its service account and root CA.
func (f fixture) namespace(ctx context.Context, name string) error {
	body := encode(object{"apiVersion": "v1", "kind": "Namespace", "metadata": metadata(name, nil)})
	if _, err := f.do(ctx, http.MethodPost, "/api/v1/namespaces", body); err != nil {
		return err
	}
	return f.await(ctx, "a new namespace", func(ctx context.Context) error { return hasDefaults(ctx, f.api, name) })
}

const crdsPath = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

// define makes a CRD and waits until its objects can be listed.
func (f fixture) define(ctx context.Context, plural string) error {
	if _, err := f.do(ctx, http.MethodPost, crdsPath, crd(plural)); err != nil {
		return err
	}
	return f.await(ctx, "a custom resource to be served", func(ctx context.Context) error {
		return f.discard(ctx, http.MethodGet, widgetsOf(plural).path("default"), nil)
	})
}

// fill makes n objects with several clients.
func (f fixture) fill(ctx context.Context, k kind, namespace string, n, payload int, owners []object) error {
	return f.inParallel(ctx, concurrent, n, func(ctx context.Context, client *api, i int) error {
		return client.discard(ctx, http.MethodPost, k.path(namespace), k.make(objectName(i), owners, payload))
	})
}

const objectFormat = "object-%05d"

func objectName(i int) string { return fmt.Sprintf(objectFormat, i) }

// inParallel calls do for 0 to n-1, spread over so many clients, and returns the
// first error.
func (f fixture) inParallel(ctx context.Context, clients, n int, do func(ctx context.Context, client *api, i int) error) error {
	connected, err := newAPIs(ctx, f.config, clients)
	if err != nil {
		return err
	}
	defer closeAll(connected)
	return spreadOver(ctx, connected, n, do)
}

// spreadOver is inParallel for clients that are there.
func spreadOver(ctx context.Context, clients []*api, n int, do func(ctx context.Context, client *api, i int) error) error {
	var next atomic.Int64
	work, ctx := errgroup.WithContext(ctx)
	for _, client := range clients {
		work.Go(func() error {
			for {
				i := int(next.Add(1)) - 1
				if i >= n {
					return nil
				}
				if err := do(ctx, client, i); err != nil {
					return err
				}
			}
		})
	}
	return work.Wait()
}
