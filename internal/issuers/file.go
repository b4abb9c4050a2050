package issuers

import (
	"fmt"
	"os"
	"sync"

	apiserverv1 "k8s.io/apiserver/pkg/apis/apiserver/v1"
	"sigs.k8s.io/yaml"
)

// Read returns the issuers of an AuthenticationConfiguration; none for an empty path.
func Read(path string) ([]apiserverv1.Issuer, error) {
	if path == "" {
		return nil, nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the authentication configuration: %w", err)
	}
	var content apiserverv1.AuthenticationConfiguration // its older versions have the same fields
	if err := yaml.Unmarshal(data, &content); err != nil {
		return nil, fmt.Errorf("read the authentication configuration %s: %w", path, err)
	}
	var list []apiserverv1.Issuer
	for _, entry := range content.JWT {
		list = append(list, entry.Issuer)
	}
	return list, nil
}

// File reads the issuers of a file again only after the file was replaced or changed: it
// may be asked for each token. It is safe for concurrent use.
type File struct {
	path string

	mu   sync.Mutex
	read os.FileInfo // of the file when it was read; nil before
	urls []string
	err  error
}

// NewFile returns a File; its path may be empty.
func NewFile(path string) *File { return &File{path: path} }

// URLs returns the URLs of the issuers. The caller does not change the list.
func (f *File) URLs() ([]string, error) {
	if f.path == "" {
		return nil, nil
	}
	info, err := os.Stat(f.path)
	if err != nil {
		return nil, fmt.Errorf("read the authentication configuration: %w", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.read != nil && os.SameFile(f.read, info) && f.read.ModTime().Equal(info.ModTime()) && f.read.Size() == info.Size() {
		return f.urls, f.err
	}
	var list []apiserverv1.Issuer
	list, f.err = Read(f.path)
	f.read, f.urls = info, nil // a change since Stat is read the next time
	for _, issuer := range list {
		f.urls = append(f.urls, issuer.URL)
	}
	return f.urls, f.err
}
