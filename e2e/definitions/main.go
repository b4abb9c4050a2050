// Command definitions prints the CustomResourceDefinitions that Crossplane makes of the
// CompositeResourceDefinitions on standard input: of the composite resource, and of its
// claim if there is one.
package main

import (
	"fmt"
	"io"
	"os"

	xp "github.com/crossplane/crossplane/v2/apis/apiextensions/v1"
	"github.com/crossplane/crossplane/v2/internal/xcrd"
	crds "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	printer "sigs.k8s.io/yaml"
)

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(in io.Reader, out io.Writer) error {
	documents := yaml.NewYAMLOrJSONDecoder(in, 4096)
	for {
		xrd := &xp.CompositeResourceDefinition{}
		switch err := documents.Decode(xrd); {
		case err == io.EOF:
			return nil
		case err != nil:
			return fmt.Errorf("read a CompositeResourceDefinition: %w", err)
		}
		if err := write(out, xrd); err != nil {
			return fmt.Errorf("make the CRDs of %s: %w", xrd.Name, err)
		}
	}
}

// write prints the CRDs of a definition.
func write(out io.Writer, xrd *xp.CompositeResourceDefinition) error {
	crd, err := xcrd.ForCompositeResource(xrd)
	if err != nil {
		return err
	}
	made := []*crds.CustomResourceDefinition{crd}
	if xrd.Spec.ClaimNames != nil {
		claim, err := xcrd.ForCompositeResourceClaim(xrd)
		if err != nil {
			return err
		}
		made = append(made, claim)
	}
	for _, each := range made {
		each.SetGroupVersionKind(crds.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
		text, err := printer.Marshal(each)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(out, "---\n%s", text); err != nil {
			return err
		}
	}
	return nil
}
