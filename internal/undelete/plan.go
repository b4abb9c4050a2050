package undelete

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"kube-hyper-mini.io/kube-hyper-mini/internal/history"
	"kube-hyper-mini.io/kube-hyper-mini/internal/journal"
)

// workers is the number of concurrent requests.
const workers = 16

// Request names the objects to restore.
type Request struct {
	Object history.Object
	// Target is the moment; the zero Target is the one before the deletion.
	Target journal.Target
	// Orphan drops references to owners that do not exist.
	Orphan bool
	// JournalWait bounds the wait for the journal to have all changes of the server, without a
	// Target; 0 takes the journal as it is.
	JournalWait time.Duration
}

// Plan lists the objects to bring back, and those that cannot come back. The caller
// closes it.
type Plan struct {
	// Revision and Time of the last change before the moment.
	Revision int64     `json:"revision"`
	Time     time.Time `json:"time"`
	// Items in the order of their creation.
	Items []*Item `json:"items"`
	// Continues: a run that was interrupted had begun this plan.
	Continues bool `json:"continues,omitempty"`
	// Warnings for the user.
	Warnings []string `json:"warnings,omitempty"`

	client  *Client
	objects *history.Objects
	root    *Item
	mark    *mark // of the root, if it exists and a run did not bring everything back
	orphan  bool
	// newTypes do not exist: the plan creates them.
	newTypes   map[schema.GroupKind]*definition
	byUID      map[types.UID]*Item // in the journal
	namespaces map[string]*Item    // of the plan, by name

	// uids has those of owners that exist, by those in the journal; empty for owners that do
	// not. rights has what the user may do, by [authorizationv1.ResourceAttributes].
	uids, rights sync.Map
}

// NewPlan collects the objects and asks the server whether it would take them. It
// changes nothing.
func NewPlan(ctx context.Context, client *Client, from *history.Journal, request Request) (*Plan, error) {
	if request.Object.Kind == "" {
		return nil, fmt.Errorf("the server has no type %[1]s: bring its definition back, with all its objects: "+
			"kube-hyper-mini undelete crd %[1]s", request.Object.GroupResource)
	}
	if isEvent(request.Object.GroupKind()) {
		return nil, errors.New("events are not brought back: they are records of the past; read them with " +
			"kube-hyper-mini history show")
	}
	mark, err := client.readMark(ctx, request.Object)
	if err != nil {
		return nil, err
	}
	continues := mark != nil && request.Target == (journal.Target{})
	if continues {
		request.Target.Revision = mark.Revision
	}
	moment, err := client.moment(ctx, from, request)
	if err != nil {
		return nil, err
	}
	objects, err := from.Objects(ctx, moment, Matches(request.Object))
	if err != nil {
		return nil, err
	}
	p := &Plan{
		Revision: moment.Revision, Time: moment.Time, Continues: continues,
		client: client, objects: objects, mark: mark, orphan: request.Orphan,
		newTypes: map[schema.GroupKind]*definition{}, byUID: map[types.UID]*Item{}, namespaces: map[string]*Item{},
	}
	if err := p.collect(ctx, request.Object); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	if err := p.eachToCreate(ctx, p.checkItem); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// moment finds the moment of a request. The one before a deletion is that before the latest one
// only when the journal has all changes.
func (c *Client) moment(ctx context.Context, from *history.Journal, request Request) (*history.Moment, error) {
	if request.Target != (journal.Target{}) {
		return from.Moment(ctx, request.Target)
	}
	if request.JournalWait > 0 {
		present := func(ctx context.Context) (int64, error) { return c.revision(ctx, request.Object) }
		if err := from.Await(ctx, present, request.JournalWait); err != nil {
			return nil, err
		}
	}
	return from.BeforeDeletion(ctx, request.Object)
}

// Close removes temporary files.
func (p *Plan) Close() error { return p.objects.Close() }

// collect chooses the objects, and orders them.
func (p *Plan) collect(ctx context.Context, object history.Object) error {
	c, err := collect(ctx, p.objects)
	if err != nil {
		return err
	}
	root := c.find(object)
	if root == nil {
		return p.missing(object, c)
	}
	p.root = root
	var defined *definition
	switch root.groupKind() {
	case definitionKind:
		content, err := p.read(ctx, root)
		if err != nil {
			return err
		}
		if defined, err = newDefinition(content); err != nil {
			return err
		}
	case namespaceKind:
		p.Items = append(p.Items, c.unreadable...)
	}
	chosen := c.choose(root, defined)
	if defined != nil {
		p.newTypes[defined.kind] = defined
	}
	p.order(chosen)
	p.Items = append(chosen, p.Items...)
	if root.groupKind() != namespaceKind && len(c.unreadable) > 0 {
		p.Warnings = append(p.Warnings, fmt.Sprintf("%d objects cannot be read, and dependents among them are not known: %s",
			len(c.unreadable), c.unreadable[0].Reason))
	}
	return p.resolve()
}

// missing returns why the moment does not have the object.
func (p *Plan) missing(object history.Object, c *collection) error {
	for _, item := range c.unreadable {
		if item.Name == object.Name && (object.Namespace == "" || item.Namespace == object.Namespace) &&
			item.Kind == object.Resource {
			return fmt.Errorf("%s cannot be read: %s", object, item.Reason)
		}
	}
	return fmt.Errorf("%s did not exist at revision %d (%s); its versions: kube-hyper-mini history get", object,
		p.Revision, p.Time.Local().Format(time.DateTime))
}

// resolve finds the types of the objects.
func (p *Plan) resolve() error {
	for _, item := range p.Items {
		if item.Action != Create {
			continue
		}
		if item.groupKind() == configMapKind && item.Name == "kube-root-ca.crt" {
			item.becomes(Exists, "the server makes it")
			continue
		}
		mapping, err := p.client.Mapper.RESTMapping(item.groupKind(), item.gvk().Version)
		switch {
		case err == nil:
			item.mapping = mapping
		case !meta.IsNoMatchError(err):
			return fmt.Errorf("ask the server for its types: %w", err)
		case p.newTypes[item.groupKind()] == nil:
			item.becomes(Gone, p.goneReason(item))
		}
	}
	return nil
}

func (p *Plan) goneReason(item *Item) string {
	if mapping, err := p.client.Mapper.RESTMapping(item.groupKind()); err == nil {
		return fmt.Sprintf("the server has %s in version %s and not in %s", item.groupKind(),
			mapping.GroupVersionKind.Version, item.APIVersion)
	}
	return fmt.Sprintf("the server has no type %s", item.groupKind())
}

// eachToCreate calls work for the objects that are to be created, except those whose
// owners, namespace or definition do not come back.
func (p *Plan) eachToCreate(ctx context.Context, work func(context.Context, *Item) error) error {
	return p.each(ctx, func(ctx context.Context, item *Item) error {
		if item.Action != Create && item.Action != Complete {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if ok, err := p.checkOwners(ctx, item); err != nil || !ok {
			return err
		}
		if parent := p.parent(item); parent != nil && !parent.comesBack() {
			item.becomes(Refused, fmt.Sprintf("%s does not come back", parent))
			return nil
		}
		return work(ctx, item)
	})
}

// each calls work for all objects: those of one rank concurrently, after those of
// lower ranks.
func (p *Plan) each(ctx context.Context, work func(context.Context, *Item) error) error {
	for rest := p.Items; len(rest) > 0; {
		n := 1
		for n < len(rest) && rest[n].rank == rest[0].rank {
			n++
		}
		group, ctx := errgroup.WithContext(ctx)
		group.SetLimit(workers)
		for _, item := range rest[:n] {
			group.Go(func() error { return work(ctx, item) })
		}
		if err := group.Wait(); err != nil {
			return err
		}
		rest = rest[n:]
	}
	return nil
}

// Count returns the number of objects with one of the actions.
func (p *Plan) Count(actions ...Action) int {
	n := 0
	for _, item := range p.Items {
		if slices.Contains(actions, item.Action) {
			n++
		}
	}
	return n
}

// Problems returns the number of objects that did not come back completely; before
// Apply, the number of those that cannot.
func (p *Plan) Problems() int { return len(p.Items) - p.Count(Create, Complete, Exists, Created) }
