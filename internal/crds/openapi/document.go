package openapi

import (
	"bytes"
	"compress/gzip"
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

// cache keeps documents that were requested recently. It is safe for
// concurrent use.
type cache struct {
	mu    sync.Mutex
	known map[string]*document // by key
	size  int
	idle  *time.Timer
}

func newCache() *cache { return &cache{known: map[string]*document{}} }

// get returns nil if the key is not cached.
func (c *cache) get(key string) *document {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.idle != nil {
		c.idle.Reset(idleAfter)
	}
	return c.known[key]
}

// add makes room by removing all other documents. The newest one is kept whatever its size.
func (c *cache) add(key string, d *document) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.size += len(d.compressed); c.size > maxCached {
		c.known, c.size = map[string]*document{}, len(d.compressed)
	}
	c.known[key] = d
	if c.idle == nil {
		c.idle = time.AfterFunc(idleAfter, c.clear)
	} else {
		c.idle.Reset(idleAfter)
	}
}

func (c *cache) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known, c.size = map[string]*document{}, 0
}

// compressor collects a document and compresses it.
type compressor struct {
	buffer bytes.Buffer
	*gzip.Writer
}

func newCompressor() (*compressor, error) {
	c := &compressor{}
	writer, err := gzip.NewWriterLevel(&c.buffer, gzip.BestSpeed)
	if err != nil {
		return nil, fmt.Errorf("compress an OpenAPI document: %w", err)
	}
	c.Writer = writer
	return c, nil
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
