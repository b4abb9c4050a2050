package apiserver

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/endpoints/request"
)

const (
	// leastWrite and leastListPatch are what a write counts at least in limits.writesAtOnce: a
	// strategic merge patch of an object with a list of 9,000 entries takes 5 s of processor time.
	leastWrite, leastListPatch = 64 << 10, 512 << 10
	// maxWriteWait bounds the time that a write waits for others of its user.
	maxWriteWait = 15 * time.Second
)

// handler bounds what next serves. endBodies is outside of bodies, which reads bodies and passes on
// requests without the timeout.
func (l *limits) handler(next http.Handler) http.Handler {
	return endBodies(l.watches(l.lists(l.bodies(next))), commandBodyTimeout)
}

// bodyVerbs are those of requests with bodies; that of a deletion has its options.
var bodyVerbs = creatingVerbs.Union(sets.New("delete", "deletecollection"))

// bodies refuses bodies that take long to handle (413), and queues the writes of each user (429
// after maxWriteWait). The time of field management grows with the square of the entries of a map,
// that of a patch with its entries times those of the object. The controllers are exempt.
func (l *limits) bodies(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, ok := request.RequestInfoFrom(r.Context())
		if !ok || !info.IsResourceRequest || !bodyVerbs.Has(info.Verb) || longRunning(r, info) || l.remote(info) ||
			requesterName(r.Context()) == controllerRequesters {
			next.ServeHTTP(w, r)
			return
		}
		largest := l.largest(info)
		release, err := l.beginWrite(r, largest)
		if err == nil {
			defer release()
			if creatingVerbs.Has(info.Verb) {
				// Upstream's handlers return when the context ends, and their work goes on: with this one
				// the write counts, here and in flow control, until its work ends, or upstream's timeout of 34 s.
				r = r.WithContext(context.WithoutCancel(r.Context()))
			}
			err = l.checkBody(w, r, largest)
		}
		if err != nil {
			l.refuse(w, r, info, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// largest returns the bound of the size of a body, in bytes: that of reviews, which are all types of both
// groups, is for the options of deletions, too.
func (l *limits) largest(info *request.RequestInfo) int64 {
	size, review := cmp.Or(l.bodySize, math.MaxInt64), l.LargestReview.Value()
	if review > 0 && (info.APIGroup == authorizationv1.GroupName || info.APIGroup == authenticationv1.GroupName ||
		!creatingVerbs.Has(info.Verb)) {
		return min(size, review)
	}
	return size
}

// beginWrite waits until the user's other writes leave room for this one. Call release when it was
// handled.
func (l *limits) beginWrite(r *http.Request, largest int64) (release func(), err error) {
	size, most := r.ContentLength, l.WritesAtOnce.Value()
	switch {
	case size > largest:
		if r.ProtoMajor == 1 { // as upstream: a client that still sends when the connection ends reads no answer
			_, _ = io.CopyN(io.Discard, r.Body, cmp.Or(l.bodySize, largest)+1)
		}
		return nil, tooLarge(largest)
	case most == 0:
		return func() {}, nil
	case size < 0:
		size = largest
	case bodyFormat(r) == formatListPatch:
		size = max(size, leastListPatch)
	}
	ctx, cancel := context.WithTimeout(r.Context(), maxWriteWait)
	defer cancel()
	name := requesterName(ctx)
	release, ok := l.taken.acquire(ctx, budget{"writes of " + name, most, max(size, leastWrite)})
	if !ok {
		return nil, errors.NewTooManyRequests("other writes of "+name+" are being handled (limits.writesAtOnce of the "+
			"server's configuration): try again later", int(maxWriteWait.Seconds()))
	}
	return release, nil
}

// checkBody reads the body, and replaces it with what it has read.
func (l *limits) checkBody(w http.ResponseWriter, r *http.Request, largest int64) error {
	format := bodyFormat(r)
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, largest))
	if int64(len(body)) >= largest && err != nil {
		return tooLarge(largest)
	}
	var measured bodyMeasure
	if err == nil {
		measured, err = measure(body, format)
	}
	switch refused, inPatch := measured.refusal(l.Entries, bodyMeasure{}), l.PatchEntries; {
	case err != nil:
		return errors.NewBadRequest("read the body: " + err.Error())
	case int64(measured.size) > largest:
		return tooLarge(largest)
	case l.Entries > 0 && refused != nil:
		return refused
	case format == formatListPatch && inPatch > 0 && measured.lists > inPatch:
		return errors.NewRequestEntityTooLargeError(fmt.Sprintf("the patch has a list of %d entries; at most %d are allowed "+
			"(limits.patchEntries of the server's configuration): use a merge patch, an update, or several patches",
			measured.lists, inPatch))
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return nil
}

func tooLarge(limit int64) error {
	return errors.NewRequestEntityTooLargeError(fmt.Sprintf("the body has more than %d bytes (for reviews and deletions, "+
		"limits.largestReview of the server's configuration); "+
		"aliases of YAML count with what they stand for", limit))
}

// bodyType is an encoding of bodies.
type bodyType int

const (
	formatJSON bodyType = iota
	formatYAML
	formatProtobuf
	formatListPatch // JSON whose lists are merged with those of the object
)

// bodyFormat returns the encoding that the request names. As upstream's handler of patches, it takes
// any parameters.
func bodyFormat(r *http.Request) bodyType {
	mediaType, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	switch mediaType = strings.ToLower(strings.TrimSpace(mediaType)); {
	case mediaType == runtime.ContentTypeYAML, mediaType == "application/apply-patch+yaml":
		return formatYAML
	case mediaType == runtime.ContentTypeProtobuf:
		return formatProtobuf
	case mediaType == string(types.JSONPatchType), mediaType == string(types.StrategicMergePatchType):
		return formatListPatch
	}
	return formatJSON
}

// bodySlack is the time after the timeout of a request in which the rest of its body may
// still come.
const bodySlack = time.Second

// commandBodyTimeout bounds the time in which the body of a command's request comes.
const commandBodyTimeout = 30 * time.Second

// refusedBodyTimeout bounds the time in which a client that is refused, before the request reaches
// its handler, sends the rest of the body, which net/http reads.
const refusedBodyTimeout = 2 * time.Second

// endRefusedBodies bounds the time for the body of an HTTP/1 request that is refused before its
// handler. It wraps the whole handler chain; endBodies, inside of it, replaces the deadline.
func endRefusedBodies(chain http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor == 1 && r.ContentLength != 0 {
			setReadDeadline(w, time.Now().Add(refusedBodyTimeout))
		}
		chain.ServeHTTP(w, r)
	})
}

// setReadDeadline sets the read deadline of the connection; it does nothing for in-process
// requests. net/http resets the deadline for the next request of a connection.
func setReadDeadline(w http.ResponseWriter, end time.Time) {
	_ = http.NewResponseController(w).SetReadDeadline(end)
}

// endBodies bounds the time in which a client sends the body of a request by the timeout of the
// request. Otherwise the connection stays open after the request was answered with 504, until
// the body is complete. A command's request has no timeout, and its body commandTimeout.
func endBodies(next http.Handler, commandTimeout time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, known := request.RequestInfoFrom(r.Context())
		if !known || r.Body == nil || r.Body == http.NoBody {
			next.ServeHTTP(w, r)
			return
		}
		end := time.Time{} // none
		switch deadline, bounded := r.Context().Deadline(); {
		case bounded && !longRunning(r, info):
			end = deadline.Add(bodySlack)
		case isCommand(r, info):
			end = time.Now().Add(commandTimeout)
			r = r.WithContext(r.Context()) // a copy
			r.Body = &commandBody{r.Body, w}
		}
		setReadDeadline(w, end)
		next.ServeHTTP(w, r)
	})
}

// commandBody ends the deadline of a connection at the end of the body: the deadline would end
// the context of the request, which may take long.
type commandBody struct {
	io.ReadCloser
	response http.ResponseWriter
}

// Read implements [io.Reader].
func (b *commandBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		setReadDeadline(b.response, time.Time{})
	}
	return n, err
}

// growthLimit refuses patches after which an object has more than most entries in a map or a list, or is
// nested too deeply: limits.bodies sees the body of the patch only, and each further patch would take
// processor time with the square of the entries. 0 is without a bound.
type growthLimit struct{ most int }

// Handles implements [admission.Interface].
func (g growthLimit) Handles(admission.Operation) bool { return g.most > 0 }

// Validate implements [admission.ValidationInterface]. An object that has had more
// entries before may become smaller.
func (g growthLimit) Validate(ctx context.Context, attributes admission.Attributes,
	_ admission.ObjectInterfaces) error {
	info, known := request.RequestInfoFrom(ctx)
	if !known || info.Verb != "patch" || attributes.GetObject() == nil || requesterName(ctx) == controllerRequesters {
		return nil
	}
	measured, err := measureObject(attributes.GetObject())
	if err != nil || measured.refusal(g.most, bodyMeasure{}) == nil {
		return err
	}
	before, err := measureObject(attributes.GetOldObject())
	if err != nil {
		return err
	}
	return measured.refusal(g.most, before)
}

func measureObject(object runtime.Object) (bodyMeasure, error) {
	text, err := json.Marshal(object) // null for none
	if err != nil {
		return bodyMeasure{}, fmt.Errorf("count the entries of the object: %w", err)
	}
	return measureJSON(text), nil
}
