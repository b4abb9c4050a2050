package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// sbom writes what the toolchain recorded in the binary: the modules that are
// in it, and the toolchain, whose standard library is too.
func sbom(binary, out string, moment time.Time) error {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return fmt.Errorf("read the build information: %w", err)
	}
	digest, err := sha256sum(binary)
	if err != nil {
		return err
	}
	version := os.Getenv("VERSION")
	product := cdx.Component{
		BOMRef: purl(info.Main.Path, version), Type: cdx.ComponentTypeApplication, Name: info.Main.Path, Version: version,
		PackageURL: purl(info.Main.Path, version), Hashes: &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: digest}},
		Licenses: &cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}},
	}
	library := func(path, version string) cdx.Component {
		return cdx.Component{BOMRef: purl(path, version), Type: cdx.ComponentTypeLibrary, Name: path, Version: version,
			PackageURL: purl(path, version)}
	}
	components := []cdx.Component{library("std", strings.TrimPrefix(info.GoVersion, "go"))}
	for _, module := range info.Deps {
		if module.Replace != nil {
			module = module.Replace
		}
		components = append(components, library(module.Path, module.Version))
	}
	var settings []cdx.Property
	for _, setting := range info.Settings {
		settings = append(settings, cdx.Property{Name: "cdx:gomod:build:env:" + setting.Key, Value: setting.Value})
	}
	bom := cdx.NewBOM()
	// Two builds of the same bytes are the same thing, and have one name.
	bom.SerialNumber = fmt.Sprintf("urn:uuid:%s-%s-8%s-8%s-%s", digest[:8], digest[8:12], digest[13:16],
		digest[17:20], digest[20:32])
	bom.Metadata = &cdx.Metadata{Timestamp: moment.Format(time.RFC3339), Component: &product, Properties: &settings}
	bom.Components = &components

	f, err := os.Create(out)
	if err != nil {
		return err
	}
	encoder := cdx.NewBOMEncoder(f, cdx.BOMFileFormatJSON)
	encoder.SetPretty(true)
	if err := encoder.Encode(bom); err != nil {
		f.Close()
		return fmt.Errorf("write %s: %w", out, err)
	}
	return f.Close()
}

func purl(path, version string) string { return "pkg:golang/" + path + "@" + version }

func sha256sum(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}
