package journal

import (
	"context"
	"fmt"
	"io"
	"time"
)

const (
	// operationLimit bounds a request to the destination, listLimit a listing: a week has
	// 600,000 segments.
	operationLimit = time.Minute
	listLimit      = 10 * time.Minute
	// leastRate, in bytes per second, is that of a slow destination.
	leastRate = 1 << 20
)

// timed is a store whose operations have a deadline. Open has none, which [readAll] adds.
type timed struct{ Store }

func (t timed) within(ctx context.Context, limit time.Duration, operation string) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, limit, fmt.Errorf("%s does not answer: %s took more than %s", t.Store, operation, limit))
}

// caused returns the error of an operation, or why its context has ended.
func caused(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// Create implements [Store].
func (t timed) Create(ctx context.Context, name string, body io.ReadSeeker, size int64) error {
	ctx, cancel := t.within(ctx, operationLimit+time.Duration(size/leastRate)*time.Second, "writing "+name)
	defer cancel()
	return caused(ctx, t.Store.Create(ctx, name, body, size))
}

// List implements [Store].
func (t timed) List(ctx context.Context, prefix, after string) ([]Object, error) {
	ctx, cancel := t.within(ctx, listLimit, "listing "+prefix)
	defer cancel()
	objects, err := t.Store.List(ctx, prefix, after)
	return objects, caused(ctx, err)
}

// Folders implements [Store].
func (t timed) Folders(ctx context.Context, prefix string) ([]string, error) {
	ctx, cancel := t.within(ctx, operationLimit, "listing "+prefix)
	defer cancel()
	names, err := t.Store.Folders(ctx, prefix)
	return names, caused(ctx, err)
}

// Remove implements [Store].
func (t timed) Remove(ctx context.Context, name string) error {
	ctx, cancel := t.within(ctx, operationLimit, "removing "+name)
	defer cancel()
	return caused(ctx, t.Store.Remove(ctx, name))
}
