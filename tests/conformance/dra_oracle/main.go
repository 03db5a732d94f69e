// Command dra-oracle answers questions about Dynamic Resource Allocation with Kubernetes' own public packages.
//
// It reads one JSON object per line and writes one per line: {"cel": …} evaluates a selector for a device, {"allocate":
// …} runs the structured allocator for one node. The tests compare the answers with those of scheduler/cel and
// scheduler/plugins/dynamicresources.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
)

type question struct {
	CEL      *celQuestion      `json:"cel,omitempty"`
	Allocate *allocateQuestion `json:"allocate,omitempty"`
}

type celQuestion struct {
	Expression       string             `json:"expression"`
	Driver           string             `json:"driver"`
	Device           resourceapi.Device `json:"device"`
	ConsumableShares bool               `json:"consumableCapacity"`
}

type celAnswer struct {
	CompileError string  `json:"compileError,omitempty"`
	Error        string  `json:"error,omitempty"`
	Result       bool    `json:"result"`
	MaxCost      uint64  `json:"maxCost"`
	ActualCost   *uint64 `json:"actualCost,omitempty"`
}

type allocateQuestion struct {
	Features  structured.Features          `json:"features"`
	Node      *v1.Node                     `json:"node"`
	Claims    []*resourceapi.ResourceClaim `json:"claims"`
	Classes   []*resourceapi.DeviceClass   `json:"classes"`
	Slices    []*resourceapi.ResourceSlice `json:"slices"`
	Allocated []allocatedDevice            `json:"allocated"`
}

type allocatedDevice struct {
	Driver           string                                          `json:"driver"`
	Pool             string                                          `json:"pool"`
	Device           string                                          `json:"device"`
	ShareID          *types.UID                                      `json:"shareID,omitempty"`
	ConsumedCapacity map[resourceapi.QualifiedName]resource.Quantity `json:"consumedCapacity,omitempty"`
}

type allocateAnswer struct {
	Error       string                         `json:"error,omitempty"`
	NodeOnly    bool                           `json:"nodeOnly,omitempty"`
	Allocations []resourceapi.AllocationResult `json:"allocations"`
}

type classes map[string]*resourceapi.DeviceClass

func (c classes) List() ([]*resourceapi.DeviceClass, error) { return nil, errors.New("not used") }

func (c classes) Get(name string) (*resourceapi.DeviceClass, error) {
	if class := c[name]; class != nil {
		return class, nil
	}
	return nil, fmt.Errorf("deviceclass.resource.k8s.io %q not found", name)
}

func evaluate(ask *celQuestion) celAnswer {
	compiler := cel.GetCompiler(cel.Features{EnableConsumableCapacity: ask.ConsumableShares})
	compiled := compiler.CompileCELExpression(ask.Expression, cel.Options{})
	if compiled.Error != nil {
		return celAnswer{CompileError: compiled.Error.Error()}
	}
	matches, details, err := compiled.DeviceMatches(context.Background(), deviceOf(ask))
	answer := celAnswer{Result: matches, MaxCost: compiled.MaxCost}
	if details != nil {
		answer.ActualCost = details.ActualCost()
	}
	if err != nil {
		answer.Error = err.Error()
	}
	return answer
}

func allocate(ask *allocateQuestion) allocateAnswer {
	known := classes{}
	for _, class := range ask.Classes {
		known[class.Name] = class
	}
	state := structured.AllocatedState{
		AllocatedDevices:         sets.New[structured.DeviceID](),
		AllocatedSharedDeviceIDs: sets.New[sharedID](),
		AggregatedCapacity:       structured.NewConsumedCapacityCollection(),
	}
	for _, device := range ask.Allocated {
		id := structured.MakeDeviceID(device.Driver, device.Pool, device.Device)
		if device.ShareID == nil {
			state.AllocatedDevices.Insert(id)
			continue
		}
		state.AllocatedSharedDeviceIDs.Insert(sharedIDOf(id, device.ShareID))
		state.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(id, device.ConsumedCapacity))
	}
	ctx := context.Background()
	celCache := cel.NewCache(50, cel.Features{EnableConsumableCapacity: ask.Features.ConsumableCapacity})
	slices, err := slicesOf(ask.Slices)
	if err != nil {
		return allocateAnswer{Error: err.Error()}
	}
	allocator, err := structured.NewAllocator(ctx, ask.Features, state, known, slices, celCache)
	if err != nil {
		return allocateAnswer{Error: err.Error()}
	}
	results, err := allocator.Allocate(ctx, ask.Node, ask.Claims)
	answer := allocateAnswer{Allocations: results}
	if err != nil {
		answer.Error = err.Error()
		answer.NodeOnly = errors.Is(err, structured.ErrFailedAllocationOnNode)
	}
	return answer
}

func main() {
	structured.EnableAllocators(allocator)
	reader := bufio.NewReaderSize(os.Stdin, 1<<20)
	writer := bufio.NewWriter(os.Stdout)
	decoder, encoder := json.NewDecoder(reader), json.NewEncoder(writer)
	for decoder.More() {
		var ask question
		if err := decoder.Decode(&ask); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		var answer any
		if ask.CEL != nil {
			answer = evaluate(ask.CEL)
		} else {
			answer = allocate(ask.Allocate)
		}
		if err := encoder.Encode(answer); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		writer.Flush()
	}
}
