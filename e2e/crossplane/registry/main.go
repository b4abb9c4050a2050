// Command registry serves Crossplane packages from an OCI registry in memory:
//
//	registry --listen 127.0.0.1:5000 REPOSITORY:TAG=DIRECTORY ...
//
// A package is an image with one layer. The layer has the file package.yaml, which is made
// of the YAML files in the directory.
package main

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	listen := flag.String("listen", "127.0.0.1:5000", "the address to serve at")
	flag.Parse()
	if err := serve(ctx, *listen, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// serve serves the packages until the context is done.
func serve(ctx context.Context, address string, packages []string) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: registry.New()}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	for _, text := range packages {
		if err := push(ctx, address, text); err != nil {
			return errors.Join(err, server.Close())
		}
	}
	fmt.Println("serving")
	select {
	case <-ctx.Done():
		return server.Close()
	case err := <-ended:
		return err
	}
}

// push makes one package and sends it to the registry.
func push(ctx context.Context, address, text string) error {
	tag, dir, found := strings.Cut(text, "=")
	if !found {
		return fmt.Errorf("%q is not REPOSITORY:TAG=DIRECTORY", text)
	}
	reference, err := name.ParseReference(address + "/" + tag)
	if err != nil {
		return err
	}
	content, err := manifests(dir)
	if err != nil {
		return fmt.Errorf("read the package %s: %w", dir, err)
	}
	image, err := imageOf(content)
	if err != nil {
		return fmt.Errorf("make the package %s: %w", tag, err)
	}
	return remote.Write(reference, image, remote.WithContext(ctx))
}

// manifests joins the YAML files in a directory.
func manifests(dir string) ([]byte, error) {
	var content bytes.Buffer
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".yaml" {
			return err
		}
		data, err := os.ReadFile(path)
		content.WriteString("---\n")
		content.Write(append(data, '\n'))
		return err
	})
	return content.Bytes(), err
}

// imageOf is an image whose layer has the manifests, marked as Crossplane expects it.
func imageOf(content []byte) (v1.Image, error) {
	var layer bytes.Buffer
	archive := tar.NewWriter(&layer)
	if err := archive.WriteHeader(&tar.Header{Name: "package.yaml", Mode: 0o644, Size: int64(len(content))}); err != nil {
		return nil, err
	}
	if _, err := archive.Write(content); err != nil {
		return nil, err
	}
	if err := archive.Close(); err != nil {
		return nil, err
	}
	made, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(layer.Bytes())), nil })
	if err != nil {
		return nil, err
	}
	return mutate.Append(empty.Image, mutate.Addendum{Layer: made, Annotations: map[string]string{"io.crossplane.xpkg": "base"}})
}
