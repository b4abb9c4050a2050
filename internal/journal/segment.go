package journal

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/klauspost/compress/zstd"
	clientv3 "go.etcd.io/etcd/client/v3"

	"kube-hyper-mini.io/kube-hyper-mini/internal/backup"
)

// ErrDamaged means that an object of a journal is not what was written.
var ErrDamaged = errors.New("the journal is damaged")

// Header begins a segment. It is neither compressed nor encrypted.
type Header struct {
	Format int `json:"format"`
	// Chain is the ID of the chain, Sequence the number of the segment in it.
	Chain    string `json:"chain"`
	Sequence int    `json:"sequence"`
	// After is the last revision of the segment before; First and Last are those of
	// this one.
	After int64 `json:"after"`
	First int64 `json:"first"`
	Last  int64 `json:"last"`
	// FirstTime and LastTime, in milliseconds since 1970, are when the writer saw
	// the first and the last revision.
	FirstTime int64 `json:"firstTime"`
	LastTime  int64 `json:"lastTime"`
	// Changes is the number of changes.
	Changes int `json:"changes"`
	// Previous is the SHA-256 sum of the segment before; empty in the first one.
	Previous string `json:"previous,omitempty"`
	// LastDigest is the SHA-256 sum of the changes of the last revision.
	LastDigest string `json:"lastDigest"`
}

// Name of the segment.
func (h *Header) Name() SegmentName {
	return SegmentName{
		First: h.First, Last: h.Last, Sequence: h.Sequence,
		FirstTime: time.UnixMilli(h.FirstTime), LastTime: time.UnixMilli(h.LastTime),
	}
}

// magic begins every segment. The length of the header in 4 bytes, the header,
// the payload and the SHA-256 sum of all before it follow.
const magic = "khmseg1\n"

// maxHeader bounds the header, maxPayload what a payload decompresses to.
const (
	maxHeader  = 64 << 10
	maxPayload = 1 << 30
)

// builder collects the changes of one segment.
type builder struct {
	header     Header
	compressed bytes.Buffer
	encoder    *zstd.Encoder
	entry      []byte // of the last revision; reused
	changes    []byte // of the last revision, in entry
	record     []byte // reused
}

func newBuilder() (*builder, error) {
	// One goroutine and a small window: the encoder takes less than 2 MiB.
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
		zstd.WithLowerEncoderMem(true), zstd.WithWindowSize(256<<10))
	if err != nil {
		return nil, fmt.Errorf("compress changes: %w", err)
	}
	b := &builder{encoder: encoder}
	b.reset()
	return b, nil
}

func (b *builder) reset() {
	b.header = Header{Format: Format}
	b.compressed.Reset()
	b.encoder.Reset(&b.compressed)
}

// empty reports whether there is nothing to journal.
func (b *builder) empty() bool { return b.header.Changes == 0 }

// size returns the bytes of the segment so far, without the encoder's buffer.
func (b *builder) size() int { return b.compressed.Len() }

func (b *builder) add(number int64, at time.Time, events []*clientv3.Event) error {
	b.entry, b.record, b.changes = appendRevision(b.entry[:0], number, at, events, b.record)
	if b.empty() {
		b.header.First, b.header.FirstTime = number, at.UnixMilli()
	}
	b.header.Last, b.header.LastTime = number, at.UnixMilli()
	b.header.Changes += len(events)
	return b.write(b.entry)
}

func (b *builder) addFile(file File) error { return b.write(appendFile(nil, file)) }

// write puts an entry into the payload, after its length.
func (b *builder) write(entry []byte) error {
	_, err := b.encoder.Write(binary.AppendUvarint(nil, uint64(len(entry))))
	if err == nil {
		_, err = b.encoder.Write(entry)
	}
	return err
}

// finish returns the segment, encrypted, and begins a new one.
func (b *builder) finish(encryption backup.Encryption) (*Header, []byte, error) {
	if err := b.encoder.Close(); err != nil {
		return nil, nil, fmt.Errorf("compress changes: %w", err)
	}
	header := b.header
	header.LastDigest = sumOf(b.changes)
	text, err := json.Marshal(header)
	if err != nil {
		return nil, nil, fmt.Errorf("write the header of a segment: %w", err)
	}
	var out bytes.Buffer
	out.WriteString(magic)
	out.Write(binary.BigEndian.AppendUint32(nil, uint32(len(text))))
	out.Write(text)
	encrypted, err := encryption.Writer(&out)
	if err == nil {
		_, err = encrypted.Write(b.compressed.Bytes())
	}
	if err == nil {
		err = encrypted.Close()
	}
	if err != nil {
		return nil, nil, fmt.Errorf("encrypt a segment: %w", err)
	}
	sum := sha256.Sum256(out.Bytes())
	out.Write(sum[:])
	b.reset()
	return &header, out.Bytes(), nil
}

// sumOf is the sum that the next segment refers to.
func sumOf(segment []byte) string {
	sum := sha256.Sum256(segment)
	return hex.EncodeToString(sum[:])
}

// readHeader checks the sum of a segment and returns its header and payload.
func readHeader(segment []byte) (*Header, []byte, error) {
	if len(segment) < len(magic)+4+sha256.Size {
		return nil, nil, fmt.Errorf("%w: it has %d bytes only", ErrDamaged, len(segment))
	}
	content, want := segment[:len(segment)-sha256.Size], segment[len(segment)-sha256.Size:]
	if sum := sha256.Sum256(content); !bytes.Equal(sum[:], want) {
		return nil, nil, fmt.Errorf("%w: its content does not match its SHA-256 sum", ErrDamaged)
	}
	rest, found := bytes.CutPrefix(content, []byte(magic))
	if !found {
		return nil, nil, fmt.Errorf("%w: it does not begin as a segment", ErrDamaged)
	}
	length := binary.BigEndian.Uint32(rest)
	if rest = rest[4:]; length > maxHeader || int(length) > len(rest) {
		return nil, nil, fmt.Errorf("%w: its header is of %d bytes", ErrDamaged, length)
	}
	header := &Header{}
	if err := json.Unmarshal(rest[:length], header); err != nil {
		return nil, nil, fmt.Errorf("%w: its header: %w", ErrDamaged, err)
	}
	if header.Format > Format {
		return nil, nil, fmt.Errorf("the segment has format %d, and this release reads up to %d: use a newer release",
			header.Format, Format)
	}
	return header, rest[length:], nil
}

// readEntries decodes a payload.
func readEntries(payload []byte, key backup.Key, visit Visitor) error {
	opened, err := key.Decrypt(bytes.NewReader(payload))
	if err != nil {
		return err
	}
	decoder, err := zstd.NewReader(opened, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true))
	if err != nil {
		return fmt.Errorf("read a segment: %w", err)
	}
	defer decoder.Close()
	entries, err := io.ReadAll(io.LimitReader(decoder, maxPayload))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	for len(entries) > 0 {
		length, n := binary.Uvarint(entries)
		if n <= 0 || length > uint64(len(entries)-n) {
			return fmt.Errorf("%w: %w", ErrDamaged, errEnd)
		}
		if err := visit.entry(entries[n : n+int(length)]); err != nil {
			return err
		}
		entries = entries[n+int(length):]
	}
	return nil
}

func (v Visitor) entry(content []byte) error {
	d := &decoder{rest: content}
	var visit func() error
	switch kind := d.byte(); kind {
	case entryRevision:
		revision := d.revision()
		visit = func() error { return v.Changed(revision) }
	case entryFile:
		file := File{Removed: d.byte() == 1, Name: string(d.bytes()), Content: d.bytes()}
		visit = func() error { return v.File(file) }
	case entryLease:
		return nil
	default:
		return fmt.Errorf("%w: an entry of the unknown kind %d", ErrDamaged, kind)
	}
	if d.err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, d.err)
	}
	return visit()
}
