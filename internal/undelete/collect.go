package undelete

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"kube-hyper-mini.io/kube-hyper-mini/internal/history"
	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/store"
)

// Matches returns a filter of the keys that a plan may need: dependents are in the
// namespace of their owner; those of a cluster-scoped object may be in each namespace.
func Matches(root history.Object) func(key string) bool {
	namespace := root.Namespace
	if root.GroupKind() == namespaceKind {
		namespace = root.Name
	}
	return func(key string) bool {
		return namespace == "" || store.MayBeInNamespace(key, namespace)
	}
}

// collection has all objects of a moment among which a plan selects.
type collection struct {
	objects *history.Objects
	all     []*Item
	// dependents of a UID
	dependents map[types.UID][]*Item
	// inNamespace has the objects of a namespace.
	inNamespace map[string][]*Item
	unreadable  []*Item
}

func collect(ctx context.Context, objects *history.Objects) (*collection, error) {
	c := &collection{objects: objects, dependents: map[types.UID][]*Item{}, inNamespace: map[string][]*Item{}}
	err := objects.Each(ctx, func(key string, object *metav1.PartialObjectMetadata, problem error) error {
		if problem != nil {
			c.unreadable = append(c.unreadable, unreadable(key, problem))
			return nil
		}
		apiVersion, kind := object.GroupVersionKind().ToAPIVersionAndKind()
		item := &Item{
			Action: Create, APIVersion: apiVersion, Kind: kind, Namespace: object.Namespace, Name: object.Name,
			UID: object.UID, key: key, owners: object.OwnerReferences,
		}
		c.all = append(c.all, item)
		if item.Namespace != "" {
			c.inNamespace[item.Namespace] = append(c.inNamespace[item.Namespace], item)
		}
		for _, owner := range object.OwnerReferences {
			c.dependents[owner.UID] = append(c.dependents[owner.UID], item)
		}
		return nil
	})
	return c, err
}

// unreadable returns the item of an object that cannot be read, named by its key: its
// kind is the resource.
func unreadable(key string, problem error) *Item {
	resource, namespace, name := store.SplitKey(key)
	return &Item{Action: Unreadable, Reason: problem.Error(), Kind: resource.Resource, Namespace: namespace, Name: name,
		key: key}
}

// find returns the item of an object; nil if the moment does not have it.
func (c *collection) find(root history.Object) *Item {
	at := slices.IndexFunc(c.all, func(i *Item) bool {
		return i.groupKind() == root.GroupKind() && i.Namespace == root.Namespace && i.Name == root.Name
	})
	if at < 0 {
		return nil
	}
	return c.all[at]
}

// choose returns the object and all that depends on it, the objects of a namespace
// included, without events. Definition is that of the root if it is a custom resource
// definition.
func (c *collection) choose(root *Item, definition *definition) []*Item {
	chosen := []*Item{root}
	seen := map[*Item]bool{root: true}
	add := func(item *Item) {
		if !seen[item] && !isEvent(item.groupKind()) {
			seen[item] = true
			chosen = append(chosen, item)
		}
	}
	if definition != nil {
		for _, item := range c.all {
			if item.groupKind() == definition.kind {
				add(item)
			}
		}
	}
	for i := 0; i < len(chosen); i++ {
		if chosen[i].groupKind() == namespaceKind {
			for _, item := range c.inNamespace[chosen[i].Name] {
				add(item)
			}
		}
		for _, dependent := range c.dependents[chosen[i].UID] {
			if chosen[i].mayOwn(dependent) {
				add(dependent)
			}
		}
	}
	return chosen
}

// The ranks of objects without owners in a plan; the rank of their namespace is added.
const (
	rankNamespace = iota
	rankDefinition
	rankServiceAccount // before their tokens, which the server deletes without them
	rankOther
	rankQuota = 1 << 20 // a new quota refuses objects until it has counted

	unranked = -1
	visiting = -2 // its owners get their ranks
)

// order sets the ranks: namespaces before their objects, owners before dependents. Of owner
// references that form a cycle it refuses one object; the others are its dependents.
func (p *Plan) order(items []*Item) {
	for _, item := range items {
		item.rank = unranked
		p.byUID[item.UID] = item
		if item.groupKind() == namespaceKind {
			p.namespaces[item.Name] = item
		}
	}
	for _, item := range items {
		if !p.setRank(item) {
			item.becomes(Refused, "its owner references lead back to it")
		}
	}
	slices.SortStableFunc(items, func(a, b *Item) int { return a.rank - b.rank })
}

// setRank sets the rank of an item after those of its namespace and its owners. It reports
// whether they do not lead back to the item.
func (p *Plan) setRank(item *Item) (acyclic bool) {
	if item.rank != unranked {
		return item.rank != visiting
	}
	item.rank = visiting
	rank, acyclic := firstRank(item.groupKind()), true
	if namespace := p.namespaces[item.Namespace]; namespace != nil {
		acyclic = p.setRank(namespace)
		rank += max(0, namespace.rank)
	}
	for _, reference := range item.owners {
		if owner := p.byUID[reference.UID]; owner != nil {
			acyclic = p.setRank(owner) && acyclic
			rank = max(rank, owner.rank+1)
		}
	}
	item.rank = rank
	return acyclic
}

func firstRank(kind schema.GroupKind) int {
	switch kind {
	case namespaceKind:
		return rankNamespace
	case definitionKind:
		return rankDefinition
	case serviceAccountKind:
		return rankServiceAccount
	case quotaKind:
		return rankQuota
	}
	return rankOther
}

// definition has what a custom resource definition defines about its objects.
type definition struct {
	kind     schema.GroupKind
	resource string
}

func newDefinition(object *unstructured.Unstructured) (*definition, error) {
	text := func(fields ...string) string {
		// empty is an error below
		value, _, _ := unstructured.NestedString(object.Object, append([]string{"spec"}, fields...)...)
		return value
	}
	d := &definition{
		kind:     schema.GroupKind{Group: text("group"), Kind: text("names", "kind")},
		resource: text("names", "plural"),
	}
	if d.kind.Kind == "" || d.resource == "" {
		return nil, fmt.Errorf("the definition %s in the journal names no kind", object.GetName())
	}
	return d, nil
}
