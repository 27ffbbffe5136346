import type { SessionView } from 'handspan/rest';
import { Menu, MenuItem } from '../parts/menu.tsx';
import { archiveChat, deleteChat, pinChat } from './chats.ts';
import type { Conversation } from './conversation.ts';
import { saveChat } from './export.ts';

interface MenuProps {
  chat: Conversation;
  session: SessionView;
  onRename: () => void;
}

/** What can be done with the chat that is open. */
export function SessionMenu({ chat, session, onRename }: MenuProps) {
  return (
    <Menu label="More for this chat">
      <MenuItem icon="edit" onClick={onRename}>
        Rename
      </MenuItem>
      <MenuItem icon="pin" onClick={() => void pinChat(session)}>
        {session.pinned ? 'Unpin' : 'Pin'}
      </MenuItem>
      <MenuItem icon="download" onClick={() => saveChat(chat)}>
        Export
      </MenuItem>
      <MenuItem icon="archive" onClick={() => void archiveChat(session)}>
        {session.archived ? 'Take out of the archive' : 'Archive'}
      </MenuItem>
      <MenuItem icon="trash" isDanger onClick={() => void deleteChat(session)}>
        Delete
      </MenuItem>
    </Menu>
  );
}
