package apiserver

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"mime"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"

	"kube-hyper-mini.io/kube-hyper-mini/config"
)

const (
	// smallBody has too few entries to take long, unless YAML repeats them.
	smallBody = 32 << 10
	// maxYAMLWait bounds the time that a YAML body waits for others of its user.
	maxYAMLWait = 15 * time.Second
)

// reviews are the resources that answer a question and are not stored.
var reviews = sets.New(
	"selfsubjectaccessreviews.authorization.k8s.io", "localsubjectaccessreviews.authorization.k8s.io",
	"subjectaccessreviews.authorization.k8s.io", "selfsubjectrulesreviews.authorization.k8s.io",
	"tokenreviews.authentication.k8s.io", "selfsubjectreviews.authentication.k8s.io",
)

// bodyLimits refuses bodies that take long to handle: field management takes time with the
// square of the number of entries of a map, and goes on after the timeout of its request.
type bodyLimits struct {
	requesters requesters
	limits     config.Limits
	size       int64 // of a body, in bytes
	remote     func(*request.RequestInfo) bool
	serializer runtime.NegotiatedSerializer
	decoding   *budgets // of YAML
}

// newBodyLimits returns the bounds; size is without a bound if it is 0.
func newBodyLimits(limits config.Limits, size int64, requesters requesters, remote func(*request.RequestInfo) bool, serializer runtime.NegotiatedSerializer) *bodyLimits {
	if size <= 0 {
		size = math.MaxInt64
	}
	return &bodyLimits{limits: limits, size: size, requesters: requesters, remote: remote, serializer: serializer, decoding: newBudgets()}
}

// limit refuses bodies above the bounds with 413.
func (b *bodyLimits) limit(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, ok := request.RequestInfoFrom(r.Context())
		if !ok || !info.IsResourceRequest || !creatingVerbs.Has(info.Verb) || longRunning(r, info) || b.remote(info) {
			next.ServeHTTP(w, r)
			return
		}
		format := bodyFormat(r)
		if r.ContentLength >= 0 && r.ContentLength <= smallBody && format != formatYAML {
			next.ServeHTTP(w, r)
			return
		}
		limit := b.size
		if largest := b.limits.LargestReview.Value(); largest > 0 && reviews.Has(schema.GroupResource{Group: info.APIGroup, Resource: info.Resource}.String()) {
			limit = min(limit, largest)
		}
		body, release, err := b.read(w, r, format, limit)
		if err != nil {
			responsewriters.ErrorNegotiated(err, b.serializer, schema.GroupVersion{Group: info.APIGroup, Version: info.APIVersion}, w, r)
			return
		}
		defer release()
		r = r.WithContext(r.Context()) // a copy
		r.Body = io.NopCloser(bytes.NewReader(body))
		next.ServeHTTP(w, r)
	})
}

// read returns the body if it is within the bounds. Call release when it was handled.
func (b *bodyLimits) read(w http.ResponseWriter, r *http.Request, format bodyType, limit int64) (body []byte, release func(), err error) {
	if r.ContentLength > limit {
		return nil, nil, tooLarge(limit)
	}
	body, err = io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	switch {
	case int64(len(body)) >= limit && err != nil:
		return nil, nil, tooLarge(limit)
	case err != nil:
		return nil, nil, errors.NewBadRequest("read the body: " + err.Error())
	}
	release = func() {}
	if most := b.limits.YAMLAtOnce.Value(); most > 0 && format == formatYAML && len(body) > smallBody {
		ctx, cancel := context.WithTimeout(r.Context(), maxYAMLWait)
		defer cancel()
		acquired, ok := b.decoding.acquire(ctx, budget{b.requesters.name(r.Context()), most, int64(len(body))})
		if !ok {
			return nil, nil, errors.NewTooManyRequests("other YAML bodies of this user are being decoded (limits.yamlAtOnce of the server's configuration); send JSON, or try again later", int(maxYAMLWait.Seconds()))
		}
		release = acquired
	}
	measured, err := measure(body, format)
	switch {
	case err != nil:
		err = errors.NewBadRequest("read the body: " + err.Error())
	case int64(measured.size) > limit:
		err = tooLarge(limit)
	case b.limits.MapEntries > 0 && measured.entries > b.limits.MapEntries:
		err = tooManyEntries(measured.entries, b.limits.MapEntries)
	}
	if err != nil {
		release()
		return nil, nil, err
	}
	return body, release, nil
}

func tooLarge(limit int64) error {
	return errors.NewRequestEntityTooLargeError(fmt.Sprintf("the body has more than %d bytes (for reviews, limits.largestReview of the server's configuration); "+
		"aliases of YAML count with what they stand for", limit))
}

func tooManyEntries(entries, most int) error {
	return errors.NewRequestEntityTooLargeError(fmt.Sprintf("a map, or a list of the metadata, has %d entries; "+
		"at most %d are allowed (limits.mapEntries of the server's configuration)", entries, most))
}

// bodyType is an encoding of bodies.
type bodyType int

const (
	formatJSON bodyType = iota
	formatYAML
	formatProtobuf
)

// bodyFormat returns the encoding that the request names; patches in JSON are JSON.
func bodyFormat(r *http.Request) bodyType {
	mediaType, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch {
	case err != nil:
		return formatJSON
	case mediaType == runtime.ContentTypeYAML, mediaType == "application/apply-patch+yaml":
		return formatYAML
	case mediaType == runtime.ContentTypeProtobuf:
		return formatProtobuf
	}
	return formatJSON
}

// bodyMeasure is what a body decodes to.
type bodyMeasure struct {
	size    int // about that of its JSON, in bytes
	entries int // of the map, or of the list in the metadata, with the most
}

func measure(body []byte, format bodyType) (bodyMeasure, error) {
	switch {
	case format == formatProtobuf:
		return bodyMeasure{entries: protobufEntries(body)}, nil
	case format == formatYAML && !json.Valid(body): // patches of server-side apply are JSON mostly
		return measureYAML(body)
	}
	return bodyMeasure{entries: jsonEntries(body)}, nil
}
