package openapi

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// maxCached bounds the compressed documents that are kept, in bytes.
	// 2,452 definitions of a cloud provider make a v2 document of 12 MB.
	maxCached = 16 << 20
	// idleAfter is how long documents are kept after the last request.
	idleAfter = time.Minute
)

// document is an encoded document, compressed with gzip.
type document struct {
	contentType string
	etag        string
	compressed  []byte
}

// serve answers a GET or HEAD request with the document.
func (d *document) serve(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Content-Type", d.contentType)
	header.Set("Etag", strconv.Quote(d.etag))
	header.Set("Vary", "Accept, Accept-Encoding")
	if r.Header.Get("If-None-Match") == strconv.Quote(d.etag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	if acceptsGzip(r) {
		header.Set("Content-Encoding", "gzip")
		header.Set("Content-Length", strconv.Itoa(len(d.compressed)))
		w.WriteHeader(http.StatusOK)
		if r.Method != http.MethodHead {
			_, _ = w.Write(d.compressed) // the client may have disconnected
		}
		return
	}
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return
	}
	if reader, err := gzip.NewReader(bytes.NewReader(d.compressed)); err == nil {
		_, _ = io.Copy(w, reader) // the client may have disconnected
	}
}

func acceptsGzip(r *http.Request) bool {
	for _, value := range r.Header.Values("Accept-Encoding") {
		for coding := range strings.SplitSeq(value, ",") {
			name, quality, _ := strings.Cut(strings.TrimSpace(coding), ";")
			if strings.EqualFold(strings.TrimSpace(name), "gzip") && strings.ReplaceAll(quality, " ", "") != "q=0" {
				return true
			}
		}
	}
	return false
}

// compressor collects a document and compresses it.
type compressor struct {
	buffer bytes.Buffer
	*gzip.Writer
}

func newCompressor() *compressor {
	c := &compressor{}
	c.Writer, _ = gzip.NewWriterLevel(&c.buffer, gzip.BestSpeed) // the level is valid
	return c
}

// write adds data to the document. The writer keeps its first error, which bytes returns.
func (c *compressor) write(data ...[]byte) {
	for _, d := range data {
		_, _ = c.Write(d)
	}
}

// bytes ends the document.
func (c *compressor) bytes() ([]byte, error) {
	if err := c.Close(); err != nil {
		return nil, fmt.Errorf("compress an OpenAPI document: %w", err)
	}
	return c.buffer.Bytes(), nil
}

// copyTo writes the collected document to w, uncompressed.
func (c *compressor) copyTo(w io.Writer) error {
	data, err := c.bytes()
	if err != nil {
		return err
	}
	reader, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return fmt.Errorf("read a compressed OpenAPI section: %w", err)
	}
	if _, err := io.Copy(w, reader); err != nil {
		return fmt.Errorf("read a compressed OpenAPI section: %w", err)
	}
	return nil
}

// part is what one version of one definition adds to a document.
type part struct {
	// sections hold the members of the document's sections by name, in the
	// order of the document's layout.
	sections []map[string]json.Marshaler
	// protobuf encodes all sections as a message of the document's type.
	protobuf func() ([]byte, error)
}

// memberSet has the members of a document, so that none is added twice: definitions share
// schemas, such as ObjectMeta. It is safe for concurrent use.
type memberSet struct{ known sync.Map }

// add reports whether the document did not have the member before.
func (m *memberSet) add(section int, name string) bool {
	_, before := m.known.LoadOrStore(fmt.Sprint(section, " ", name), true)
	return !before
}

// encoder builds a document of parts. add is safe for concurrent use.
type encoder interface {
	add(*part) error
	// finish returns the document, compressed.
	finish() ([]byte, error)
}

// jsonEncoder writes the sections of a JSON document. Parts come in any order,
// so all sections but the first are collected beside it.
type jsonEncoder struct {
	mu       sync.Mutex
	prefixes []string // what precedes the members of each section
	suffix   string
	sections []*section
}

type section struct {
	*compressor
	members int
}

// newJSONEncoder takes the text around the members of the sections. A prefix
// that does not end with "{" has members already.
func newJSONEncoder(prefixes []string, suffix string) *jsonEncoder {
	e := &jsonEncoder{prefixes: prefixes, suffix: suffix}
	for _, prefix := range prefixes {
		s := &section{compressor: newCompressor()}
		if !strings.HasSuffix(prefix, "{") {
			s.members = 1
		}
		e.sections = append(e.sections, s)
	}
	e.sections[0].write([]byte(prefixes[0]))
	return e
}

// add implements [encoder].
func (e *jsonEncoder) add(p *part) error {
	for i, members := range p.sections {
		for name, value := range members {
			encoded, err := value.MarshalJSON()
			if err != nil {
				return fmt.Errorf("encode %s: %w", name, err)
			}
			if err := e.member(e.sections[i], name, encoded); err != nil {
				return err
			}
		}
	}
	return nil
}

func (e *jsonEncoder) member(s *section, name string, value []byte) error {
	key, err := json.Marshal(name)
	if err != nil {
		return fmt.Errorf("encode the name %q: %w", name, err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if s.members++; s.members > 1 {
		key = append([]byte{','}, key...)
	}
	s.write(key, []byte{':'}, value)
	return nil
}

// finish implements [encoder].
func (e *jsonEncoder) finish() ([]byte, error) {
	out := e.sections[0]
	for i, s := range e.sections[1:] {
		out.write([]byte(e.prefixes[i+1]))
		if err := s.copyTo(out); err != nil {
			return nil, err
		}
	}
	out.write([]byte(e.suffix))
	return out.bytes()
}

// protobufEncoder concatenates messages. Parsers merge the members of repeated
// messages, and the last one's version and title win, so base comes last.
type protobufEncoder struct {
	mu   sync.Mutex
	out  *compressor
	base []byte
}

func newProtobufEncoder(base []byte) *protobufEncoder {
	return &protobufEncoder{out: newCompressor(), base: base}
}

// add implements [encoder].
func (e *protobufEncoder) add(p *part) error {
	message, err := p.protobuf()
	if err != nil {
		return fmt.Errorf("encode a part of an OpenAPI document as protobuf: %w", err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.out.write(message)
	return nil
}

// finish implements [encoder].
func (e *protobufEncoder) finish() ([]byte, error) {
	e.out.write(e.base)
	return e.out.bytes()
}
