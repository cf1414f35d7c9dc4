metadata name = 'Reply subscriptions'
metadata description = 'The subscription of each reply topic, with the subscription\'s rule. A separate module, because main.bicep changes the subscriptions before or after the app.'

@description('Required. Name of the Service Bus namespace with the reply topics.')
param namespaceName string

@description('Required. `true` forwards all reply topics to one queue, which one function reads.')
param forward bool

var topology = loadJsonContent('../topology.json')
var lanes = topology.lanes

resource namespace 'Microsoft.ServiceBus/namespaces@2024-01-01' existing = {
  name: namespaceName
}

resource replyTopics 'Microsoft.ServiceBus/namespaces/topics@2024-01-01' existing = [
  for lane in range(0, lanes): {
    parent: namespace
    name: '${topology.replies.prefix}${lane}'
  }
]

@batchSize(8)
resource replySubscriptions 'Microsoft.ServiceBus/namespaces/topics/subscriptions@2024-01-01' = [
  for lane in range(0, lanes): {
    parent: replyTopics[lane]
    name: topology.replies.subscription
    properties: {
      lockDuration: topology.replies.lockDuration
      maxDeliveryCount: topology.replies.maxDeliveryCount
      forwardTo: forward ? topology.replies.queue : null
      enableBatchedOperations: true
    }
  }
]

// A forwarded reply must name its topic, so this rule adds the name. The rule exists with and without forwarding: a deployment stack that
// deleted it would leave the subscription without a rule. A subscription without a rule drops every message.
@batchSize(8)
resource replyRules 'Microsoft.ServiceBus/namespaces/topics/subscriptions/rules@2024-01-01' = [
  for lane in range(0, lanes): {
    parent: replySubscriptions[lane]
    name: '$Default'
    properties: {
      filterType: 'SqlFilter'
      sqlFilter: {
        sqlExpression: '1=1'
      }
      action: {
        sqlExpression: 'SET ${topology.replies.topicProperty} = \'${topology.replies.prefix}${lane}\''
      }
    }
  }
]
