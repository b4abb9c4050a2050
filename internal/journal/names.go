package journal

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"
)

// Format is the layout of chains and segments that this release reads and writes.
const Format = 1

const (
	chainsPrefix = "chains/"
	chainFile    = "chain.json"
	segmentsDir  = "segments"
	basesDir     = "bases"
	endsDir      = "ends"
	segmentEnd   = ".segment"
)

// Claim is the content of a chain.json. Its object is created once; the server
// that has created it writes the chain.
type Claim struct {
	Format int `json:"format"`
	// ID is unique for each chain. Segments repeat it.
	ID string `json:"id"`
	// Writer is the identity of the server, Host where it ran and Version its
	// release.
	Writer  string `json:"writer"`
	Host    string `json:"host"`
	Version string `json:"version"`
	// Created is when the chain was begun.
	Created time.Time `json:"created"`
	// First is the revision of the first change that the segments hold.
	First int64 `json:"first"`
	// Reason is why the chain begins.
	Reason string `json:"reason"`
	// Restored is the ID of the chain that the server was restored from.
	Restored string `json:"restored,omitempty"`
}

func parseClaim(data []byte) (*Claim, error) {
	claim := &Claim{}
	if err := json.Unmarshal(data, claim); err != nil {
		return nil, fmt.Errorf("%s: %w: %w", chainFile, ErrDamaged, err)
	}
	if claim.Format > Format {
		return nil, fmt.Errorf("the chain was written by kube-hyper-mini %s in format %d, and this release reads up "+
			"to %d: use that release or a newer one", claim.Version, claim.Format, Format)
	}
	if claim.Format < 1 || claim.ID == "" || claim.Writer == "" {
		return nil, fmt.Errorf("%w: %s has no format, ID or writer", ErrDamaged, chainFile)
	}
	return claim, nil
}

// chainName returns the name of an object of a chain.
func chainName(number int, elem ...string) string {
	return chainsPrefix + fmt.Sprintf("%08d", number) + "/" + path.Join(elem...)
}

// BaseName has the fields of a base's name.
type BaseName struct {
	// Revision of the last change in the base.
	Revision int64
	// Sequence is the number of the first segment that a replay on the base needs.
	Sequence int
	// Time when the base was begun.
	Time time.Time
	// Extension is .tar.gz or .tar.gz.age.
	Extension string
}

// String renders the name so that names sort by revision.
func (b BaseName) String() string {
	return fmt.Sprintf("%020d-%010d-%015d%s", b.Revision, b.Sequence, b.Time.UnixMilli(), b.Extension)
}

func parseBaseName(name string) (b BaseName, err error) {
	stem, extension, _ := strings.Cut(name, ".")
	numbers, err := parseNumbers(stem, 3)
	if err != nil || (extension != "tar.gz" && extension != "tar.gz.age") {
		return b, fmt.Errorf("%q is not the name of a base", name)
	}
	return BaseName{
		Revision: numbers[0], Sequence: int(numbers[1]), Time: time.UnixMilli(numbers[2]), Extension: "." + extension,
	}, nil
}

// SegmentName has the fields of a segment's name.
type SegmentName struct {
	// First and Last are the revisions of its first and last change.
	First, Last int64
	// Sequence counts the segments of a chain from 1.
	Sequence int
	// FirstTime and LastTime are when the writer saw these changes.
	FirstTime, LastTime time.Time
}

// String renders the name so that names sort by sequence.
func (s SegmentName) String() string {
	return fmt.Sprintf("%010d-%020d-%020d-%015d-%015d%s", s.Sequence, s.First, s.Last, s.FirstTime.UnixMilli(),
		s.LastTime.UnixMilli(), segmentEnd)
}

// segmentsBefore is greater than the names of all segments before the one with the
// number, and less than its own.
func segmentsBefore(sequence int) string { return fmt.Sprintf("%010d", sequence) }

func parseSegmentName(name string) (s SegmentName, err error) {
	stem, found := strings.CutSuffix(name, segmentEnd)
	numbers, err := parseNumbers(stem, 5)
	if err != nil || !found {
		return s, fmt.Errorf("%q is not the name of a segment", name)
	}
	return SegmentName{
		Sequence: int(numbers[0]), First: numbers[1], Last: numbers[2],
		FirstTime: time.UnixMilli(numbers[3]), LastTime: time.UnixMilli(numbers[4]),
	}, nil
}

func parseNumbers(text string, count int) ([]int64, error) {
	fields := strings.Split(text, "-")
	if len(fields) != count {
		return nil, errors.New("not so many numbers")
	}
	numbers := make([]int64, count)
	for i, field := range fields {
		if _, err := fmt.Sscanf(field, "%d", &numbers[i]); err != nil || numbers[i] < 0 {
			return nil, errors.New("not a number")
		}
	}
	return numbers, nil
}
