package races

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
)

// family is an owner with its dependents.
type family struct {
	owner      dynamic.ResourceInterface
	name       string
	dependents dynamic.ResourceInterface
	size       int
	patience   time.Duration
}

// make creates the owner and then the dependents. Those of an owner that waits
// for them are held by a finalizer, so that the waiting can be seen.
func (f *family) make(ctx context.Context, ownerVersion, ownerKind, version string, policy metav1.DeletionPropagation) error {
	owner, err := f.owner.Create(ctx, object(ownerVersion, ownerKind, f.name, nil), metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("make an owner: %w", err)
	}
	block := true
	reference := metav1.OwnerReference{APIVersion: ownerVersion, Kind: ownerKind, Name: f.name, UID: owner.GetUID(), BlockOwnerDeletion: &block}
	for i := range f.size {
		dependent := object(version, "Dependent", f.dependent(i), []metav1.OwnerReference{reference})
		if policy == metav1.DeletePropagationForeground {
			dependent.SetFinalizers([]string{hold})
		}
		if _, err := f.dependents.Create(ctx, dependent, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("make a dependent: %w", err)
		}
	}
	return nil
}

func (f *family) dependent(i int) string { return fmt.Sprintf("%s-%d", f.name, i) }

func (f *family) deleteOwner(ctx context.Context, policy metav1.DeletionPropagation) error {
	if err := f.owner.Delete(ctx, f.name, metav1.DeleteOptions{PropagationPolicy: &policy}); err != nil {
		return fmt.Errorf("delete an owner: %w", err)
	}
	return nil
}

// outcome returns nil if all objects are as the policy requires.
func (f *family) outcome(ctx context.Context, policy metav1.DeletionPropagation) error {
	switch policy {
	case metav1.DeletePropagationOrphan:
		return f.orphaned(ctx)
	case metav1.DeletePropagationForeground:
		return f.waitedFor(ctx)
	}
	if err := f.ownerGone(ctx)(); err != nil {
		return fmt.Errorf("the owner must be gone at once: %w", err)
	}
	return f.collected(ctx)
}

// orphaned: the owner goes, and the dependents stay without it.
func (f *family) orphaned(ctx context.Context) error {
	if err := f.await(ctx, "the owner is gone", f.ownerGone(ctx)); err != nil {
		return err
	}
	for i := range f.size {
		dependent, err := f.dependents.Get(ctx, f.dependent(i), metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("an orphan: %w", err)
		}
		if n := len(dependent.GetOwnerReferences()); n > 0 || dependent.GetDeletionTimestamp() != nil {
			return fmt.Errorf("an orphan has %d owners, and its deletion began at %v", n, dependent.GetDeletionTimestamp())
		}
	}
	return nil
}

// waitedFor: all dependents are being deleted, the owner waits for them, and
// goes with the last.
func (f *family) waitedFor(ctx context.Context) error {
	for i := range f.size {
		err := f.await(ctx, "a dependent is being deleted", func() error {
			dependent, err := f.dependents.Get(ctx, f.dependent(i), metav1.GetOptions{})
			if err == nil && dependent.GetDeletionTimestamp() == nil {
				err = errors.New("it is not")
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	owner, err := f.owner.Get(ctx, f.name, metav1.GetOptions{})
	if err != nil {
		return errors.Join(fmt.Errorf("the owner did not wait for its dependents: %w", err), f.letGo(ctx))
	}
	if !slices.Contains(owner.GetFinalizers(), metav1.FinalizerDeleteDependents) {
		return fmt.Errorf("the owner has the finalizers %v", owner.GetFinalizers())
	}
	if err := f.letGo(ctx); err != nil {
		return err
	}
	return f.collected(ctx)
}

// collected: the owner and the dependents go.
func (f *family) collected(ctx context.Context) error {
	if err := f.await(ctx, "the owner is gone", f.ownerGone(ctx)); err != nil {
		return err
	}
	for i := range f.size {
		if err := f.await(ctx, "a dependent is gone", func() error {
			return absent(f.dependents.Get(ctx, f.dependent(i), metav1.GetOptions{}))
		}); err != nil {
			return err
		}
	}
	return nil
}

func (f *family) ownerGone(ctx context.Context) func() error {
	return func() error { return absent(f.owner.Get(ctx, f.name, metav1.GetOptions{})) }
}

// letGo removes the finalizers that hold the dependents.
func (f *family) letGo(ctx context.Context) error {
	for i := range f.size {
		_, err := f.dependents.Patch(ctx, f.dependent(i), mergePatch, release, metav1.PatchOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("let a dependent go: %w", err)
		}
	}
	return nil
}

// await repeats check until it returns nil.
func (f *family) await(ctx context.Context, what string, check func() error) error {
	ctx, cancel := context.WithTimeout(ctx, f.patience)
	defer cancel()
	for {
		err := check()
		if err == nil {
			return nil
		}
		if sleep(ctx, pollInterval) != nil {
			return fmt.Errorf("not true that %s: %w", what, err)
		}
	}
}
