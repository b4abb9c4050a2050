package crds

import (
	"bytes"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/klauspost/compress/s2"
	"golang.org/x/sync/singleflight"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"kube-hyper-mini.io/kube-hyper-mini/internal/memory"
)

const (
	// maxEncodings bounds the compressed encodings that are kept, in bytes. 2,452
	// CRDs of a cloud provider are 9 MB in a list and as much in a watch.
	maxEncodings = 32 << 20
	// encodingsIdle is how long they are kept after the last use.
	encodingsIdle = 30 * time.Second
)

// encodingKey is what the encoding of a CRD depends on.
type encodingKey struct {
	encoder runtime.Identifier
	uid     types.UID
	version string // resource version
}

// encodings shares the encoded form of CRDs between lists and watches at the same
// time: decoding and encoding one takes 20 times as long as sending it. It is safe
// for concurrent use.
type encodings struct {
	encoding singleflight.Group
	kept     *memory.Cache[encodingKey, []byte] // compressed
}

func newEncodings() *encodings {
	return &encodings{kept: memory.NewCache[encodingKey, []byte](maxEncodings, encodingsIdle)}
}

// write writes the encoding of the key to w in one call. If it is not kept, encode
// makes it.
func (e *encodings) write(w io.Writer, key encodingKey, encode func(io.Writer) error) error {
	compressed := e.kept.Get(key)
	if compressed == nil {
		made, err, _ := e.encoding.Do(fmt.Sprint(key.encoder, "\x00", key.uid, "\x00", key.version), func() (any, error) {
			if known := e.kept.Get(key); known != nil {
				return known, nil
			}
			var plain bytes.Buffer
			if err := encode(&plain); err != nil {
				return nil, err
			}
			encoded := compress(plain.Bytes())
			e.kept.Add(key, encoded, len(encoded))
			return encoded, nil
		})
		if err != nil {
			return err
		}
		compressed = made.([]byte)
	}
	buffer := buffers.Get().(*[]byte)
	defer buffers.Put(buffer)
	plain, err := s2.Decode((*buffer)[:cap(*buffer)], compressed)
	if err != nil {
		return fmt.Errorf("read the kept encoding of a CustomResourceDefinition: %w", err)
	}
	*buffer = plain
	_, err = w.Write(plain)
	return err
}

// compress returns a slice without spare capacity: the compressor needs a buffer of the
// size of plain, and a compressed CRD fills a quarter of that.
func compress(plain []byte) []byte {
	buffer := buffers.Get().(*[]byte)
	defer buffers.Put(buffer)
	*buffer = s2.Encode(*buffer, plain)
	return bytes.Clone(*buffer)
}

// buffers has buffers for compressing and decompressing.
var buffers = sync.Pool{New: func() any { return new([]byte) }}
