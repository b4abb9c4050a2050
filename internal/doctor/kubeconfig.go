package doctor

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/cert"

	"kube-hyper-mini.io/kube-hyper-mini/internal/logging"
)

// kubeconfig checks the administrator's kubeconfig.
func (d *directory) kubeconfig(add func(Finding)) error {
	path := d.config.Kubeconfig
	cfg, err := clientcmd.LoadFromFile(path)
	restart := "start the server again: it writes the file"
	if errors.Is(err, fs.ErrNotExist) {
		if d.Running {
			add(Finding{Severity: Failure, Object: path, Problem: "the administrator's kubeconfig is missing", Remedy: restart})
		}
		return nil // the start writes it
	}
	if errors.Is(err, fs.ErrPermission) {
		return err
	}
	if err != nil {
		add(Finding{Severity: Failure, Object: path, Problem: err.Error(),
			Remedy: "remove the file and start the server again: it writes the file", Commands: []string{"rm " +
				logging.ShellWord(path)}})
		return nil
	}
	k := credentials{path: path, config: cfg, now: d.now(), remedy: restart}
	if !d.Running {
		k.severity = Risk // the start replaces it
	}
	k.check(add)
	return nil
}

// credentials checks a kubeconfig.
type credentials struct {
	path     string
	config   *api.Config
	now      time.Time
	severity Severity // of credentials that are not accepted; Failure if empty
	remedy   string
}

func (k *credentials) check(add func(Finding)) {
	for _, name := range slices.Sorted(maps.Keys(k.config.AuthInfos)) {
		if problem := k.user(k.config.AuthInfos[name]); problem != "" {
			add(Finding{Severity: cmp.Or(k.severity, Failure), Object: k.path,
				Problem: fmt.Sprintf("the credentials of user %q: %s", name, problem), Remedy: k.remedy})
		}
	}
}

// user returns why the credentials are not accepted, or "".
func (k *credentials) user(info *api.AuthInfo) string {
	data := info.ClientCertificateData
	if len(data) == 0 && info.ClientCertificate != "" {
		var err error
		if data, err = os.ReadFile(info.ClientCertificate); err != nil {
			return err.Error()
		}
	}
	if list, err := cert.ParseCertsPEM(data); err == nil { // otherwise there are none
		crt := list[0]
		switch {
		case k.now.After(crt.NotAfter):
			return "the certificate expired at " + crt.NotAfter.Local().Format(time.DateTime)
		case k.now.Before(crt.NotBefore):
			return "the certificate is not valid before " + crt.NotBefore.Local().Format(time.DateTime)
		}
	}
	return ""
}
