package early

import "kube-hyper-mini.io/kube-hyper-mini/internal/memory"

func init() { memory.Hold(memory.DefaultPercent, memory.DefaultHeap) }
