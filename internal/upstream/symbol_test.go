package upstream

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Module is a module of the build, as `go list -m` reports it.
type Module struct{ Path, Version, Dir string }

// Modules lists the modules that the module in dir is built from, and the
// standard library with an empty path.
func Modules(dir string) ([]Module, error) {
	root, err := goTool(dir, "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	version, err := goTool(dir, "env", "GOVERSION")
	if err != nil {
		return nil, err
	}
	// "all" would also load versions that only modules outside of the build
	// name, and that do not exist (k8s.io/kubernetes names v0.0.0).
	file, err := goTool(dir, "mod", "edit", "-json")
	if err != nil {
		return nil, err
	}
	var required struct{ Require []struct{ Path string } }
	if err := json.Unmarshal([]byte(file), &required); err != nil {
		return nil, fmt.Errorf("read go.mod: %w", err)
	}
	arguments := []string{"list", "-m", "-f", "{{.Path}}\t{{.Version}}\t{{.Dir}}"}
	for _, module := range required.Require {
		arguments = append(arguments, module.Path)
	}
	list, err := goTool(dir, arguments...)
	if err != nil {
		return nil, err
	}
	modules := []Module{{"", version, filepath.Join(root, "src")}}
	for line := range strings.Lines(list) {
		if fields := strings.Split(strings.TrimSpace(line), "\t"); len(fields) == 3 {
			modules = append(modules, Module{fields[0], fields[1], fields[2]})
		}
	}
	return modules, nil
}

func goTool(dir string, arguments ...string) (string, error) {
	command := exec.Command("go", arguments...)
	command.Dir = dir
	out, err := command.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("%w: %s", err, strings.TrimSpace(string(exit.Stderr)))
	}
	if err != nil {
		return "", fmt.Errorf("go %s: %w", strings.Join(arguments, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}

// Locate finds the module that a symbol belongs to, the symbol's package
// directory and its name in there.
func Locate(modules []Module, symbol string) (module Module, dir, name string, err error) {
	slash := strings.LastIndex(symbol, "/")
	dot := strings.Index(symbol[slash+1:], ".")
	if dot < 0 {
		return Module{}, "", "", fmt.Errorf("%q is not import/path.Symbol", symbol)
	}
	path, name := symbol[:slash+1+dot], symbol[slash+1+dot+1:]
	for _, candidate := range modules {
		within := candidate.Path == "" && !strings.Contains(strings.Split(path, "/")[0], ".") ||
			candidate.Path != "" && (path == candidate.Path || strings.HasPrefix(path, candidate.Path+"/"))
		if within && (dir == "" || len(candidate.Path) > len(module.Path)) {
			module, dir = candidate, filepath.Join(candidate.Dir, strings.TrimPrefix(path, candidate.Path))
		}
	}
	if dir == "" {
		return Module{}, "", "", fmt.Errorf("no module of the build has the package %s", path)
	}
	return module, dir, name, nil
}

// Hash returns the hash of a declaration in the package directory dir: of its
// tokens, so that comments and layout do not count. See [Declarations].
func Hash(dir, name string) (string, error) {
	texts, err := Declarations(dir, name)
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	for _, text := range texts {
		writeTokens(sum, text)
	}
	return hex.EncodeToString(sum.Sum(nil)[:8]), nil
}

// Declarations returns the source of a declaration in the package directory dir. Name is a
// function, a type, a variable, a constant or Type.Method. With "#text", it returns only the
// smallest statements, or fields, that have the text. Files of all platforms are read: several
// of them may declare a symbol.
func Declarations(dir, name string) (texts [][]byte, err error) {
	name, text, part := strings.Cut(name, "#")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		if filepath.Ext(entry.Name()) != ".go" || strings.HasSuffix(entry.Name(), "_test.go") {
			continue
		}
		source, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			return nil, err
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, entry.Name(), source, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, declaration := range file.Decls {
			for _, node := range declared(declaration, name) {
				nodes := []ast.Node{node}
				if part {
					nodes = smallest(files, source, node, text)
				}
				for _, node := range nodes {
					texts = append(texts, textOf(files, source, node))
				}
			}
		}
	}
	if len(texts) == 0 {
		return nil, errors.New("does not exist")
	}
	return texts, nil
}

// Former returns the module that has the package of the symbol, in the version that an earlier
// go.mod names. It downloads that where the module cache does not have it.
func Former(gomod string, modules []Module, symbol string) (dir, name string, err error) {
	module, _, _, err := Locate(modules, symbol)
	if err != nil || module.Path == "" {
		return "", "", errors.Join(err, errors.New("only modules have a former version here"))
	}
	file, err := goTool(".", "mod", "edit", "-json", gomod)
	if err != nil {
		return "", "", err
	}
	var required struct {
		Require []struct{ Path, Version string }
	}
	if err := json.Unmarshal([]byte(file), &required); err != nil {
		return "", "", fmt.Errorf("read %s: %w", gomod, err)
	}
	for _, former := range required.Require {
		if former.Path != module.Path {
			continue
		}
		text, err := goTool(os.TempDir(), "mod", "download", "-json", former.Path+"@"+former.Version)
		if err != nil {
			return "", "", err
		}
		if err := json.Unmarshal([]byte(text), &module); err != nil {
			return "", "", fmt.Errorf("read the output of go mod download: %w", err)
		}
		_, dir, name, err := Locate([]Module{module}, symbol)
		return dir, name, err
	}
	return "", "", fmt.Errorf("%s does not require %s", gomod, module.Path)
}

// Diff returns what has changed in a declaration between two package directories.
func Diff(scratch, before, after, name string) (string, error) {
	paths := [2]string{}
	for i, dir := range []string{before, after} {
		texts, err := Declarations(dir, name)
		if err != nil && i == 0 {
			return "", err
		}
		paths[i] = filepath.Join(scratch, []string{"before", "after"}[i])
		if err := os.WriteFile(paths[i], append(bytes.Join(texts, []byte("\n")), '\n'), 0o600); err != nil {
			return "", err
		}
	}
	out, err := exec.Command("git", "diff", "--no-index", "--no-color", paths[0], paths[1]).Output()
	if exit := (*exec.ExitError)(nil); err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) {
		return "", fmt.Errorf("compare two versions of %s: %w", name, err)
	}
	_, changes, _ := strings.Cut(string(out), "\n@@")
	return "@@" + strings.TrimRight(changes, "\n"), nil
}

// declared returns the parts of a declaration that declare the name.
func declared(declaration ast.Decl, name string) []ast.Node {
	var nodes []ast.Node
	switch d := declaration.(type) {
	case *ast.FuncDecl:
		if receiver(d)+d.Name.Name == name {
			nodes = append(nodes, d)
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				if s.Name.Name == name {
					nodes = append(nodes, s)
				}
			case *ast.ValueSpec:
				if slices.ContainsFunc(s.Names, func(n *ast.Ident) bool { return n.Name == name }) {
					nodes = append(nodes, s)
				}
			}
		}
	}
	return nodes
}

func textOf(files *token.FileSet, source []byte, node ast.Node) []byte {
	return source[files.Position(node.Pos()).Offset:files.Position(node.End()).Offset]
}

// smallest returns the statements and fields in a node that have the text, and no statement or
// field in them has it.
func smallest(files *token.FileSet, source []byte, root ast.Node, text string) []ast.Node {
	var found []ast.Node
	ast.Inspect(root, func(node ast.Node) bool {
		switch node.(type) {
		case *ast.BlockStmt, *ast.FieldList: // of several
			return true
		case ast.Stmt, *ast.Field:
		default:
			return true
		}
		if !bytes.Contains(textOf(files, source, node), []byte(text)) {
			return false
		}
		for len(found) > 0 && found[len(found)-1].Pos() <= node.Pos() && node.End() <= found[len(found)-1].End() {
			found = found[:len(found)-1]
		}
		found = append(found, node)
		return true
	})
	return found
}

// receiver is "Type." of a method and empty for a function.
func receiver(function *ast.FuncDecl) string {
	if function.Recv == nil || len(function.Recv.List) == 0 {
		return ""
	}
	expression := function.Recv.List[0].Type
	for {
		switch e := expression.(type) {
		case *ast.StarExpr:
			expression = e.X
		case *ast.IndexExpr:
			expression = e.X
		case *ast.IndexListExpr:
			expression = e.X
		case *ast.Ident:
			return e.Name + "."
		default:
			return ""
		}
	}
}

// writeTokens writes the tokens of the source, comments left out.
func writeTokens(w io.Writer, source []byte) {
	var s scanner.Scanner
	files := token.NewFileSet()
	s.Init(files.AddFile("", -1, len(source)), source, nil, 0)
	for {
		_, kind, literal := s.Scan()
		if kind == token.EOF {
			return
		}
		if kind == token.SEMICOLON {
			literal = "" // inserted at the end of a line, or written
		}
		_, _ = fmt.Fprintf(w, "%s %s\n", kind, literal) // a hash never fails
	}
}
