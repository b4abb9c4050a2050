package planes

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"mime"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// format cuts the stream of a watch into its events.
type format interface {
	// next returns the first event of data, as it was sent, and the rest. It returns nil if
	// data has a part of an event.
	next(data []byte) (event, rest []byte)
	// read returns the type of an event and the resourceVersion of its object.
	read(event []byte) (kind watch.EventType, version string, err error)
}

// formatOf returns the format of a media type, or nil for an unknown one.
func formatOf(contentType string) format {
	media, parameters, err := mime.ParseMediaType(contentType)
	switch {
	case err != nil:
		return nil
	case media == runtime.ContentTypeJSON:
		return jsonEvents{}
	case media == runtime.ContentTypeProtobuf && parameters["stream"] == "watch":
		return protobufEvents{}
	}
	return nil
}

// jsonEvents are lines with an event each.
type jsonEvents struct{}

func (jsonEvents) next(data []byte) (event, rest []byte) {
	end := bytes.IndexByte(data, '\n')
	if end < 0 {
		return nil, data
	}
	return data[:end+1], data[end+1:]
}

func (jsonEvents) read(event []byte) (watch.EventType, string, error) {
	type object struct {
		Metadata struct {
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
	}
	var parsed struct {
		Type   watch.EventType `json:"type"`
		Object struct {
			object
			Rows []struct { // of a Table
				Object object `json:"object"`
			} `json:"rows"`
		} `json:"object"`
	}
	if err := json.Unmarshal(event, &parsed); err != nil {
		return "", "", err
	}
	version := parsed.Object.Metadata.ResourceVersion
	if rows := parsed.Object.Rows; len(rows) > 0 {
		version = rows[len(rows)-1].Object.Metadata.ResourceVersion
	}
	return parsed.Type, version, nil
}

// protobufEvents have their length in four bytes before them
// (upstream: k8s.io/apimachinery/pkg/util/framer.NewLengthDelimitedFrameWriter).
type protobufEvents struct{}

const lengthBytes = 4

func (protobufEvents) next(data []byte) (event, rest []byte) {
	if len(data) < lengthBytes {
		return nil, data
	}
	end := lengthBytes + int(binary.BigEndian.Uint32(data))
	if len(data) < end {
		return nil, data
	}
	return data[:end], data[end:]
}

func (protobufEvents) read(event []byte) (watch.EventType, string, error) {
	var parsed metav1.WatchEvent
	if err := parsed.Unmarshal(event[lengthBytes:]); err != nil {
		return "", "", err
	}
	var unknown runtime.Unknown
	if err := unknown.Unmarshal(bytes.TrimPrefix(parsed.Object.Raw, []byte("k8s\x00"))); err != nil {
		return "", "", err
	}
	var object metav1.PartialObjectMetadata // metadata is the first field of all objects
	if err := object.Unmarshal(unknown.Raw); err != nil {
		return "", "", err
	}
	return watch.EventType(parsed.Type), object.ResourceVersion, nil
}
