package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/conformance/specs"
)

// programs are the paths of the binaries.
type programs struct {
	// server is the product, or what starts the other side.
	server, suite, ginkgo, kubectl string
}

// buildAll builds what the run needs. The Go build cache makes a second run
// short.
func buildAll(ctx context.Context, o *options) (*programs, error) {
	bin := filepath.Join(o.out, "bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return nil, fmt.Errorf("make the directory for binaries: %w", err)
	}
	module := filepath.Join(o.endToEnd(), "conformance")
	stamp, err := versionStamp(ctx, module)
	if err != nil {
		return nil, err
	}
	p := &programs{
		server:  o.binary,
		suite:   filepath.Join(bin, "conformance.test"), // ginkgo wants this ending
		ginkgo:  filepath.Join(bin, "ginkgo"),
		kubectl: o.kubectl,
	}
	suite := []string{"test", "-c", "-ldflags", "-w " + stamp}
	if slices.ContainsFunc(o.lists, func(l specs.List) bool { return l.Name == specs.Kubernetes }) {
		p.suite = filepath.Join(bin, "conformance-kubernetes.test")
		suite = append(suite, "-tags", specs.Kubernetes) // more of upstream's packages of specs
	}
	builds := []build{
		{dir: module, output: p.suite, args: suite, pkg: "./suite"},
		{dir: module, output: p.ginkgo, args: []string{"build"}, pkg: "github.com/onsi/ginkgo/v2/ginkgo"},
	}
	if p.kubectl == "" {
		p.kubectl = filepath.Join(bin, "kubectl")
		builds = append(builds, build{dir: module, output: p.kubectl, args: []string{"build", "-ldflags", stamp}, pkg: "k8s.io/kubernetes/cmd/kubectl"})
	}
	switch {
	case o.side == otherSide:
		p.server = filepath.Join(bin, "bench") // which builds the programs of that side
		builds = append(builds, build{dir: o.endToEnd(), output: p.server, args: []string{"build"}, pkg: "./bench"})
	case p.server == "" && o.kubeconfig == "":
		p.server = filepath.Join(bin, "kube-hyper-mini")
		builds = append(builds, build{dir: o.root, output: p.server, args: []string{"build", "-ldflags", stamp}, pkg: "."})
	}
	for _, b := range builds {
		if err := b.run(ctx); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// endToEnd is the directory of the module with the other tests, and with the benchmark.
func (o *options) endToEnd() string { return filepath.Join(o.root, "e2e") }

// versionStamp has the linker flags that make a Kubernetes binary know its
// version: that of the module that the suite comes from.
func versionStamp(ctx context.Context, module string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Version}}", "k8s.io/kubernetes")
	cmd.Dir, cmd.Stderr = module, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("find the version of k8s.io/kubernetes in %s: %w", module, err)
	}
	version := strings.TrimSpace(string(out))
	numbers := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	if len(numbers) != 3 {
		return "", fmt.Errorf("find the version of k8s.io/kubernetes in %s: %q is not one", module, version)
	}
	var flags []string
	for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		flags = append(flags, "-X", pkg+".gitVersion="+version, "-X", pkg+".gitMajor="+numbers[0], "-X", pkg+".gitMinor="+numbers[1])
	}
	return strings.Join(flags, " "), nil
}

// build is one call of the go command.
type build struct {
	dir, output, pkg string
	args             []string
}

// run builds beside the output and puts the result in place by a rename, so
// that a run at the same time never starts half a binary.
func (b build) run(ctx context.Context) (err error) {
	temporary, err := os.MkdirTemp(filepath.Dir(b.output), "build-")
	if err != nil {
		return fmt.Errorf("build %s: %w", b.pkg, err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temporary)) }()
	binary := filepath.Join(temporary, filepath.Base(b.output))
	// What is up to date is not linked again.
	if err := os.Link(b.output, binary); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("build %s: %w", b.pkg, err)
	}
	cmd := exec.CommandContext(ctx, "go", append(append([]string{}, b.args...), "-o", binary, b.pkg)...)
	cmd.Dir, cmd.Env = b.dir, append(os.Environ(), "CGO_ENABLED=0")
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s in %s: %w\n%s", b.pkg, b.dir, err, output)
	}
	if err := os.Rename(binary, b.output); err != nil {
		return fmt.Errorf("build %s: %w", b.pkg, err)
	}
	return nil
}
