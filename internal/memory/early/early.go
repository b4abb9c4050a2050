package early

import "kube-hyper-mini.io/kube-hyper-mini/internal/memory"

// percent is Go's default of GOGC.
const percent = 100

func init() { memory.Hold(percent) }
