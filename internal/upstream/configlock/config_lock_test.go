package configlock

import (
	"errors"
	"io/fs"
	"path/filepath"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// TestConfigLock: kubectl does not change a locked kubeconfig.
func TestConfigLock(t *testing.T) {
	access := clientcmd.NewDefaultPathOptions()
	access.GlobalFile, access.EnvVar = filepath.Join(t.TempDir(), "config"), ""
	changed := api.NewConfig()
	changed.CurrentContext = "mini"
	unlock, err := Lock(access.GlobalFile)
	if err != nil {
		t.Fatal(err)
	}
	if err := clientcmd.ModifyConfig(access, *changed, false); !errors.Is(err, fs.ErrExist) {
		t.Errorf("kubectl changes a locked file: %v", err)
	}
	if _, err := Lock(access.GlobalFile); !errors.Is(err, fs.ErrExist) {
		t.Errorf("it is locked twice: %v", err)
	}
	if err := unlock(); err != nil {
		t.Fatal(err)
	}
	if err := clientcmd.ModifyConfig(access, *changed, false); err != nil {
		t.Errorf("kubectl does not change the file: %v", err)
	}
}
