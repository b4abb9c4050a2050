package journal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Base is a base of a chain.
type Base struct {
	BaseName
	Object Object
}

// Segment is a segment of a chain.
type Segment struct {
	SegmentName
	Object Object
}

// Chain is what a destination has of one chain.
type Chain struct {
	// Number in its name. The writer of the highest one is that of the destination.
	Number int
	// Claim is nil if it cannot be read; Problem is the error. Unclaimed means that there
	// is none.
	Claim     *Claim
	Problem   string
	Unclaimed bool
	// Bases in the order of their revisions.
	Bases []Base
	// Unknown has the objects whose names this release does not know.
	Unknown []string
}

// Chains reads which chains the store has, in the order of their numbers, without
// their segments.
func Chains(ctx context.Context, store Store) ([]*Chain, error) {
	numbers, err := chainNumbers(ctx, store)
	if err != nil {
		return nil, err
	}
	var chains []*Chain
	for _, number := range numbers {
		chain := &Chain{Number: number}
		if chain.Claim, err = readClaim(ctx, store, number); err != nil {
			if ctx.Err() != nil {
				return nil, err
			}
			chain.Problem, chain.Unclaimed = err.Error(), isMissing(err)
		}
		if err := chain.listBases(ctx, store); err != nil {
			return nil, err
		}
		chains = append(chains, chain)
	}
	return chains, nil
}

// listBases lists the bases of the chain.
func (c *Chain) listBases(ctx context.Context, store Store) error {
	objects, err := store.List(ctx, chainName(c.Number, basesDir)+"/", "")
	for _, object := range objects {
		name, err := parseBaseName(path.Base(object.Name))
		if err != nil {
			c.Unknown = append(c.Unknown, object.Name)
			continue
		}
		c.Bases = append(c.Bases, Base{name, object})
	}
	return err
}

// chainNumbers lists the numbers that are claimed.
func chainNumbers(ctx context.Context, store Store) ([]int, error) {
	folders, err := store.Folders(ctx, chainsPrefix)
	if err != nil {
		return nil, err
	}
	var numbers []int
	for _, folder := range folders {
		if number, err := strconv.Atoi(folder); err == nil && number > 0 {
			numbers = append(numbers, number)
		}
	}
	return numbers, nil
}

// newestClaim returns the newest chain whose chain.json can be read; 0 and nil if there is
// none. unclaimed are the chains after it: their chain.json is missing or damaged.
func newestClaim(ctx context.Context, store Store,
	numbers []int) (number int, claim *Claim, unclaimed []int, err error) {
	for _, number := range slices.Backward(numbers) {
		claim, err := readClaim(ctx, store, number)
		switch {
		case err == nil:
			return number, claim, unclaimed, nil
		case !isMissing(err) && !errors.Is(err, ErrDamaged):
			return 0, nil, nil, err
		}
		unclaimed = append(unclaimed, number)
	}
	return 0, nil, unclaimed, nil
}

// maxClaim bounds the size of a chain.json, in bytes.
const maxClaim = 1 << 20

func readClaim(ctx context.Context, store Store, number int) (*Claim, error) {
	var claim *Claim
	data, err := readAll(ctx, store, chainName(number, chainFile), maxClaim)
	if err == nil {
		claim, err = parseClaim(data)
	}
	if err != nil {
		return nil, fmt.Errorf("chain %d: %w", number, err)
	}
	return claim, nil
}

// readAll reads an object of at most limit bytes.
func readAll(ctx context.Context, store Store, name string, limit int64) ([]byte, error) {
	body, err := store.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(body, limit+1))
	if err = errors.Join(err, body.Close()); err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("read %s: %w: it has more than %d bytes", name, ErrDamaged, limit)
	}
	return data, nil
}

// Segments lists the segments of a chain from the number on, in order.
func (c *Chain) Segments(ctx context.Context, store Store, from int) ([]Segment, error) {
	prefix := chainName(c.Number, segmentsDir) + "/"
	objects, err := store.List(ctx, prefix, prefix+segmentsBefore(from))
	if err != nil {
		return nil, err
	}
	var segments []Segment
	for _, object := range objects {
		name, err := parseSegmentName(strings.TrimPrefix(object.Name, prefix))
		if err != nil {
			c.Unknown = append(c.Unknown, object.Name)
			continue
		}
		segments = append(segments, Segment{name, object})
	}
	return segments, nil
}

// LastRevision is the last revision of all chains of the store.
func LastRevision(ctx context.Context, store Store) (last int64, err error) {
	chains, err := Chains(ctx, store)
	if err != nil {
		return 0, err
	}
	for _, chain := range chains {
		ofChain, err := chain.lastRevision(ctx, store)
		if err != nil {
			return 0, err
		}
		last = max(last, ofChain)
	}
	return last, nil
}

// End is the last revision of the newest chain; 0 while that has no base, without which it cannot
// be read.
func End(ctx context.Context, store Store) (int64, error) {
	numbers, err := chainNumbers(ctx, store)
	if err != nil {
		return 0, err
	}
	if len(numbers) == 0 {
		return 0, fmt.Errorf("%s has no journal", store)
	}
	chain := &Chain{Number: slices.Max(numbers)}
	if err := chain.listBases(ctx, store); err != nil || len(chain.Bases) == 0 {
		return 0, err
	}
	return chain.lastRevision(ctx, store)
}

// lastRevision is the last revision that the bases and segments of the chain have.
func (c *Chain) lastRevision(ctx context.Context, store Store) (last int64, err error) {
	from := 0
	for _, base := range c.Bases {
		last, from = max(last, base.Revision), base.Sequence
	}
	segments, err := c.Segments(ctx, store, from)
	for _, segment := range segments {
		last = max(last, segment.Last)
	}
	return last, err
}
